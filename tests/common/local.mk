# SPDX-License-Identifier: MIT
common_tests = \
	%D%/test_address \
	%D%/test_cgroup \
	%D%/test_crc32c \
	%D%/test_dataname \
	%D%/test_departed \
	%D%/test_fields \
	%D%/test_frame \
	%D%/test_hostlist \
	%D%/test_identity \
	%D%/test_jobloader \
	%D%/test_laws \
	%D%/test_list \
	%D%/test_lock \
	%D%/test_meeting \
	%D%/test_order \
	%D%/test_order_small \
	%D%/test_philox \
	%D%/test_pipeline \
	%D%/test_program \
	%D%/test_progress \
	%D%/test_ring \
	%D%/test_state \
	%D%/test_status \
	%D%/test_text \
	%D%/test_util \
	%D%/test_wire
if TLS
common_tests += %D%/test_tls %D%/test_refuser
endif
check_PROGRAMS += $(common_tests)
TESTS += $(common_tests)

%C%_test_address_CFLAGS = $(test_cflags)
%C%_test_address_LDADD = common/libcommon.la $(CRITERION_LIBS)
%C%_test_cgroup_CFLAGS = $(test_cflags)
%C%_test_cgroup_LDADD = tests/libtree.la common/libcommon.la $(JPEG_LIBS) $(PNG_LIBS) $(CRITERION_LIBS)
%C%_test_departed_CFLAGS = $(test_cflags)
%C%_test_departed_LDADD = common/libcommon.la $(CRITERION_LIBS)
%C%_test_fields_CFLAGS = $(test_cflags)
%C%_test_fields_LDADD = common/libcommon.la $(CRITERION_LIBS)
%C%_test_frame_CFLAGS = $(test_cflags)
%C%_test_frame_LDADD = common/libcommon.la $(CRITERION_LIBS)
%C%_test_hostlist_CFLAGS = $(test_cflags)
%C%_test_hostlist_LDADD = common/libcommon.la $(CRITERION_LIBS)
%C%_test_identity_CFLAGS = $(test_cflags)
%C%_test_identity_LDADD = common/libcommon.la $(CRITERION_LIBS)
%C%_test_jobloader_CFLAGS = $(test_cflags)
%C%_test_jobloader_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=posix_spawn,--wrap=syscall,--wrap=clone,--wrap=recv
%C%_test_jobloader_LDADD = common/libcommon.la $(CRITERION_LIBS)
%C%_test_meeting_CFLAGS = $(test_cflags)
%C%_test_meeting_LDADD = common/libcommon.la $(CRITERION_LIBS)
%C%_test_order_CFLAGS = $(test_cflags)
%C%_test_order_LDADD = common/libcommon.la $(CRITERION_LIBS) -lm
%C%_test_order_small_CFLAGS = $(AM_CFLAGS) -Wno-type-limits
%C%_test_order_small_LDADD = common/libcommon.la
%C%_test_philox_CFLAGS = $(test_cflags)
%C%_test_philox_LDADD = common/libcommon.la $(CRITERION_LIBS)
%C%_test_pipeline_CFLAGS = $(test_cflags)
%C%_test_pipeline_LDADD = common/libcommon.la $(CRITERION_LIBS)
%C%_test_program_CFLAGS = $(test_cflags)
%C%_test_program_LDADD = common/libcommon.la $(CRITERION_LIBS)
%C%_test_state_CFLAGS = $(test_cflags)
%C%_test_state_LDADD = common/libcommon.la $(CRITERION_LIBS)
%C%_test_status_CFLAGS = $(test_cflags)
%C%_test_status_LDADD = common/libcommon.la $(CRITERION_LIBS)
%C%_test_text_CFLAGS = $(test_cflags)
%C%_test_text_LDADD = common/libcommon.la $(CRITERION_LIBS)
%C%_test_list_CFLAGS = $(test_cflags)
%C%_test_list_LDADD = common/libcommon.la $(CRITERION_LIBS)
%C%_test_util_CFLAGS = $(test_cflags)
%C%_test_util_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=pwrite
%C%_test_util_LDADD = common/libcommon.la $(CRITERION_LIBS)
%C%_test_ring_CFLAGS = $(test_cflags)
%C%_test_ring_LDADD = common/libcommon.la $(CRITERION_LIBS)
%C%_test_wire_CFLAGS = $(test_cflags)
%C%_test_wire_LDADD = common/libcommon.la $(CRITERION_LIBS)
%C%_test_dataname_CFLAGS = $(test_cflags)
%C%_test_dataname_LDADD = common/libcommon.la $(CRITERION_LIBS)
%C%_test_crc32c_CFLAGS = $(test_cflags)
%C%_test_crc32c_LDADD = common/libcommon.la $(CRITERION_LIBS)
%C%_test_lock_CFLAGS = $(test_cflags)
%C%_test_lock_LDADD = common/libcommon.la $(CRITERION_LIBS)
%C%_test_laws_CFLAGS = $(test_cflags)
%C%_test_laws_LDADD = common/libcommon.la $(CRITERION_LIBS)
%C%_test_progress_CFLAGS = $(test_cflags)
%C%_test_progress_LDADD = common/libcommon.la $(CRITERION_LIBS)
# The module itself, and the OpenSSL functions it uses.
%C%_test_refuser_SOURCES = %D%/test_refuser.c common/tls_openssl.c
%C%_test_refuser_CFLAGS = $(test_cflags) $(OPENSSL_CFLAGS)
%C%_test_refuser_LDADD = common/libcommon.la $(OPENSSL_LIBS) $(CRITERION_LIBS)
%C%_test_refuser_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=tls_carry,--wrap=clock_gettime

%C%_test_tls_SOURCES = %D%/test_tls.c common/tls_openssl.c
%C%_test_tls_CPPFLAGS = $(AM_CPPFLAGS) -DTLS_RECORDS_MAX=8
%C%_test_tls_CFLAGS = $(test_cflags) $(OPENSSL_CFLAGS)
%C%_test_tls_LDADD = common/libcommon.la $(OPENSSL_LIBS) $(CRITERION_LIBS)
%C%_test_tls_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=SSL_set_verify,--wrap=SSL_key_update
