libdist_tests = %D%/test_job %D%/test_stream
check_PROGRAMS += $(libdist_tests)
TESTS += $(libdist_tests)

%C%_test_job_CFLAGS = $(test_cflags)
%C%_test_job_LDADD = libdist/libdist.la -ldl $(CRITERION_LIBS)
%C%_test_stream_CFLAGS = $(test_cflags)
%C%_test_stream_LDADD = tests/libtree.la libdist/libdist.la $(loader_libs) -ldl \
	$(JPEG_LIBS) $(PNG_LIBS) $(CRITERION_LIBS)
