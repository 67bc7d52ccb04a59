if CRITERION
launcher_tests = %D%/test_host %D%/test_place %D%/test_plan %D%/test_ranges
check_PROGRAMS += $(launcher_tests)
TESTS += $(launcher_tests)

launcher_test_cflags = $(test_cflags) $(HWLOC_CFLAGS)
launcher_test_ldadd = launcher/liblauncher.la $(CRITERION_LIBS)

%C%_test_host_CFLAGS = $(launcher_test_cflags)
%C%_test_host_LDADD = $(launcher_test_ldadd)

%C%_test_place_CFLAGS = $(launcher_test_cflags)
%C%_test_place_LDADD = $(launcher_test_ldadd)

%C%_test_plan_CFLAGS = $(launcher_test_cflags)
%C%_test_plan_LDADD = $(launcher_test_ldadd)

%C%_test_ranges_CFLAGS = $(launcher_test_cflags)
%C%_test_ranges_LDADD = $(launcher_test_ldadd)
endif
