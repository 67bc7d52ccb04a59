# SPDX-License-Identifier: MIT
common_tests = \
	%D%/data/test_crc32c \
	%D%/data/test_dataname \
	%D%/data/test_fields \
	%D%/job/test_departed \
	%D%/job/test_jobloader \
	%D%/job/test_meeting \
	%D%/net/test_address \
	%D%/net/test_frame \
	%D%/net/test_hostlist \
	%D%/net/test_ring \
	%D%/net/test_status \
	%D%/net/test_wire \
	%D%/options/test_program \
	%D%/order/test_mixture \
	%D%/order/test_orderplan \
	%D%/order/test_sampler \
	%D%/order/test_shares \
	%D%/order/test_shares_small \
	%D%/pipeline/test_identity \
	%D%/order/test_laws \
	%D%/order/test_order \
	%D%/order/test_order_small \
	%D%/net/test_port_reserve \
	%D%/order/test_philox \
	%D%/pipeline/test_pipeline \
	%D%/pipeline/test_streamhash \
	%D%/util/test_cgroup \
	%D%/util/test_list \
	%D%/util/test_lock \
	%D%/util/test_progress \
	%D%/util/test_state \
	%D%/util/test_text \
	%D%/util/test_util
if TLS
common_tests += %D%/net/test_tls %D%/net/test_refuser
endif
check_PROGRAMS += $(common_tests)
TESTS += $(common_tests)

%C%_net_test_address_CFLAGS = $(test_cflags)
%C%_net_test_address_LDADD = common/libcommon.la $(CRITERION_LIBS)
%C%_util_test_cgroup_CFLAGS = $(test_cflags)
%C%_util_test_cgroup_LDADD = tests/libtree.la common/libcommon.la $(JPEG_LIBS) $(PNG_LIBS) $(CRITERION_LIBS)
%C%_job_test_departed_CFLAGS = $(test_cflags)
%C%_job_test_departed_LDADD = common/libcommon.la $(CRITERION_LIBS)
%C%_data_test_fields_CFLAGS = $(test_cflags)
%C%_data_test_fields_LDADD = common/libcommon.la $(CRITERION_LIBS)
%C%_net_test_frame_CFLAGS = $(test_cflags)
%C%_net_test_frame_LDADD = common/libcommon.la $(CRITERION_LIBS)
%C%_net_test_hostlist_CFLAGS = $(test_cflags)
%C%_net_test_hostlist_LDADD = common/libcommon.la $(CRITERION_LIBS)
%C%_pipeline_test_identity_CFLAGS = $(test_cflags)
%C%_pipeline_test_identity_LDADD = common/libcommon.la $(CRITERION_LIBS)
%C%_job_test_jobloader_CFLAGS = $(test_cflags)
%C%_job_test_jobloader_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=posix_spawn,--wrap=syscall,--wrap=clone,--wrap=recv
%C%_job_test_jobloader_LDADD = common/libcommon.la $(CRITERION_LIBS)
%C%_job_test_meeting_CFLAGS = $(test_cflags)
%C%_job_test_meeting_LDADD = common/libcommon.la $(CRITERION_LIBS)
%C%_order_test_order_CFLAGS = $(test_cflags)
%C%_order_test_order_LDADD = common/libcommon.la $(CRITERION_LIBS) -lm
%C%_order_test_order_small_CFLAGS = $(AM_CFLAGS) -Wno-type-limits
%C%_order_test_order_small_LDADD = common/libcommon.la
%C%_net_test_port_reserve_CFLAGS = $(test_cflags)
%C%_net_test_port_reserve_LDADD = common/libcommon.la $(CRITERION_LIBS)
%C%_order_test_philox_CFLAGS = $(test_cflags)
%C%_order_test_philox_LDADD = common/libcommon.la $(CRITERION_LIBS)
%C%_pipeline_test_pipeline_CFLAGS = $(test_cflags)
%C%_pipeline_test_pipeline_LDADD = common/libcommon.la $(CRITERION_LIBS)
%C%_pipeline_test_streamhash_CFLAGS = $(test_cflags)
%C%_pipeline_test_streamhash_LDADD = common/libcommon.la $(CRITERION_LIBS)
%C%_options_test_program_CFLAGS = $(test_cflags)
%C%_options_test_program_LDADD = common/libcommon.la $(CRITERION_LIBS)
%C%_util_test_state_CFLAGS = $(test_cflags)
%C%_util_test_state_LDADD = common/libcommon.la $(CRITERION_LIBS)
%C%_net_test_status_CFLAGS = $(test_cflags)
%C%_net_test_status_LDADD = common/libcommon.la $(CRITERION_LIBS)
%C%_util_test_text_CFLAGS = $(test_cflags)
%C%_util_test_text_LDADD = common/libcommon.la $(CRITERION_LIBS)
%C%_util_test_list_CFLAGS = $(test_cflags)
%C%_util_test_list_LDADD = common/libcommon.la $(CRITERION_LIBS)
%C%_util_test_util_CFLAGS = $(test_cflags)
%C%_util_test_util_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=pwrite
%C%_util_test_util_LDADD = common/libcommon.la $(CRITERION_LIBS)
%C%_net_test_ring_CFLAGS = $(test_cflags)
%C%_net_test_ring_LDADD = common/libcommon.la $(CRITERION_LIBS)
%C%_net_test_wire_CFLAGS = $(test_cflags)
%C%_net_test_wire_LDADD = common/libcommon.la $(CRITERION_LIBS)
%C%_data_test_dataname_CFLAGS = $(test_cflags)
%C%_data_test_dataname_LDADD = common/libcommon.la $(CRITERION_LIBS)
%C%_data_test_crc32c_CFLAGS = $(test_cflags)
%C%_data_test_crc32c_LDADD = common/libcommon.la $(CRITERION_LIBS)
%C%_util_test_lock_CFLAGS = $(test_cflags)
%C%_util_test_lock_LDADD = common/libcommon.la $(CRITERION_LIBS)
%C%_order_test_laws_CFLAGS = $(test_cflags)
%C%_order_test_laws_LDADD = common/libcommon.la $(CRITERION_LIBS)
%C%_util_test_progress_CFLAGS = $(test_cflags)
%C%_util_test_progress_LDADD = common/libcommon.la $(CRITERION_LIBS)
%C%_order_test_mixture_CFLAGS = $(test_cflags)
%C%_order_test_mixture_LDADD = common/libcommon.la $(CRITERION_LIBS) -lm
%C%_order_test_orderplan_CFLAGS = $(test_cflags)
%C%_order_test_orderplan_LDADD = common/libcommon.la $(CRITERION_LIBS)
%C%_order_test_sampler_CFLAGS = $(test_cflags)
%C%_order_test_sampler_LDADD = common/libcommon.la $(CRITERION_LIBS) -lm
%C%_order_test_shares_CFLAGS = $(test_cflags)
%C%_order_test_shares_LDADD = common/libcommon.la $(CRITERION_LIBS)
%C%_order_test_shares_small_CFLAGS = $(AM_CFLAGS)
%C%_order_test_shares_small_LDADD = common/libcommon.la
# This test links the TLS module itself, and the OpenSSL functions that it uses.
%C%_net_test_refuser_SOURCES = %D%/net/test_refuser.c common/net/tls_openssl.c
%C%_net_test_refuser_CFLAGS = $(test_cflags) $(OPENSSL_CFLAGS)
%C%_net_test_refuser_LDADD = common/libcommon.la $(OPENSSL_LIBS) $(CRITERION_LIBS)
%C%_net_test_refuser_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=tls_carry,--wrap=clock_gettime

%C%_net_test_tls_SOURCES = %D%/net/test_tls.c common/net/tls_openssl.c
%C%_net_test_tls_CPPFLAGS = $(AM_CPPFLAGS) -DTLS_RECORDS_MAX=8
%C%_net_test_tls_CFLAGS = $(test_cflags) $(OPENSSL_CFLAGS)
%C%_net_test_tls_LDADD = common/libcommon.la $(OPENSSL_LIBS) $(CRITERION_LIBS)
%C%_net_test_tls_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=SSL_set_verify,--wrap=SSL_key_update
