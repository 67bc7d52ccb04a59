# SPDX-License-Identifier: MIT
check_LTLIBRARIES += tests/libtree.la
tests_libtree_la_SOURCES = tests/records.c tests/records.h tests/tap.h tests/tree.c tests/tree.h
tests_libtree_la_LIBADD = tests/libdaemon.la common/libcommon.la loader/image/libimage.la $(JPEG_LIBS) $(PNG_LIBS)

loader_tests = %D%/dataset/test_badlist %D%/dataset/test_block_cache %D%/dataset/test_cache_limit %D%/dataset/test_coco %D%/dataset/test_folder %D%/dataset/test_fresh %D%/dataset/test_index %D%/dataset/test_json_find %D%/dataset/test_label %D%/dataset/test_list %D%/dataset/test_hint_cache %D%/dataset/test_mapping %D%/dataset/test_number %D%/dataset/test_pattern %D%/dataset/test_picture_size %D%/dataset/test_scope %D%/dataset/test_stamp \
	%D%/dataset/test_tar %D%/dataset/test_tfrecord %D%/dataset/test_stated_size %D%/dataset/test_voc %D%/dataset/test_yolo %D%/render/test_tiles %D%/serve/test_blocking %D%/serve/test_openings %D%/serve/test_queue %D%/serve/test_queue_sharing %D%/serve/test_log_limit \
	%D%/serve/test_session %D%/serve/test_fair_queue %D%/serve/test_renderings %D%/serve/test_bound
check_PROGRAMS += %D%/store/reader %D%/store/signer
%C%_store_signer_LDADD = loader/store/libstore.la common/libcommon.la
store_tests = %D%/store/test_store_answer %D%/store/test_listing %D%/store/test_store_place %D%/store/test_sigv4 %D%/store/test_hedge %D%/store/test_exchange %D%/store/test_hugging_face
cache_tests = %D%/cache/test_sample_cache %D%/cache/test_keep %D%/cache/test_shelf
check_PROGRAMS += $(cache_tests)
TESTS += $(cache_tests)
%C%_cache_test_keep_CFLAGS = $(test_cflags)
%C%_cache_test_keep_LDADD = loader/cache/libcache.la common/libcommon.la $(CRITERION_LIBS)
%C%_cache_test_shelf_SOURCES = %D%/cache/test_shelf.c %D%/cache/open_shelf.h
%C%_cache_test_shelf_CFLAGS = $(test_cflags)
%C%_cache_test_shelf_LDADD = loader/cache/libcache.la common/libcommon.la $(CRITERION_LIBS)
%C%_cache_test_sample_cache_CFLAGS = $(test_cflags)
%C%_cache_test_sample_cache_LDADD = loader/cache/libcache.la common/libcommon.la $(CRITERION_LIBS)
%C%_cache_test_sample_cache_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=pwrite -Wl,--wrap=pread -Wl,--wrap=clock_gettime
check_PROGRAMS += $(store_tests)
TESTS += $(store_tests)
store_test_libs = loader/store/libstore.la common/libcommon.la $(CRITERION_LIBS)
%C%_store_test_store_answer_CFLAGS = $(test_cflags)
%C%_store_test_store_answer_LDADD = $(store_test_libs)
%C%_store_test_exchange_CFLAGS = $(test_cflags)
%C%_store_test_exchange_LDADD = $(store_test_libs)
%C%_store_test_exchange_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=store_backend_get,--wrap=bucket_late_ns,--wrap=bucket_try_hedge,--wrap=bucket_leave,--wrap=bucket_note_time
%C%_store_test_hedge_CFLAGS = $(test_cflags)
%C%_store_test_hedge_LDADD = $(store_test_libs)
%C%_store_test_hugging_face_CFLAGS = $(test_cflags)
%C%_store_test_hugging_face_LDADD = $(store_test_libs)
%C%_store_test_listing_CFLAGS = $(test_cflags)
%C%_store_test_listing_LDADD = $(store_test_libs)
%C%_store_test_store_place_CFLAGS = $(test_cflags)
%C%_store_test_store_place_LDADD = $(store_test_libs)
%C%_store_test_sigv4_CFLAGS = $(test_cflags)
%C%_store_test_sigv4_LDADD = $(store_test_libs)
%C%_store_reader_LDADD = loader/store/libstore.la common/libcommon.la
EXTRA_DIST += %D%/cache/check_faults.py %D%/cache/faults.tsv %D%/cache/test_caches.py %D%/store/store_server.py %D%/store/test_stores.py %D%/store/check_servers.py %D%/store/servers
# Real servers, installed once from PyPI, below the build folder or in STORES=DIR; and random faults.
STORES = $(abs_top_builddir)/stores
check-stores: all
	$(SHELL) $(srcdir)/%D%/store/servers '$(PYTHON)' '$(STORES)'
	PLENUM_STORES='$(STORES)' $(MAKE) $(AM_MAKEFLAGS) check \
		TESTS='%D%/store/check_servers.py %D%/cache/check_faults.py'
phony += check-stores
if PYTHON_FOUND
TESTS += %D%/cache/test_caches.py %D%/store/test_stores.py
endif
threads_tests += %D%/serve/test_blocking %D%/serve/test_queue %D%/serve/test_queue_sharing
check_PROGRAMS += $(loader_tests)
TESTS += $(loader_tests)

loader_scripts = %D%/ctl/test_main.sh %D%/ctl/test_pack.sh %D%/ctl/test_pack_raw.sh %D%/ctl/test_pack_resize.sh %D%/ctl/test_preview.sh %D%/ctl/test_terminal.sh %D%/ctl/test_verify.sh %D%/dataset/test_opens.sh %D%/dataset/test_tar_writers.sh
EXTRA_DIST += $(loader_scripts)
TESTS += $(loader_scripts)

dataset_test_libs = tests/libtree.la loader/dataset/libdataset.la common/libcommon.la $(CRITERION_LIBS)
%C%_dataset_test_cache_limit_CFLAGS = $(test_cflags)
%C%_dataset_test_cache_limit_LDADD = $(dataset_test_libs)
%C%_dataset_test_badlist_CFLAGS = $(test_cflags)
%C%_dataset_test_badlist_LDADD = $(dataset_test_libs)
%C%_dataset_test_badlist_SOURCES = %D%/dataset/test_badlist.c %D%/dataset/opened.h
%C%_dataset_test_folder_CFLAGS = $(test_cflags)
%C%_dataset_test_folder_LDADD = $(dataset_test_libs)
%C%_dataset_test_folder_SOURCES = %D%/dataset/test_folder.c %D%/dataset/opened.h
%C%_dataset_test_fresh_CFLAGS = $(test_cflags)
%C%_dataset_test_fresh_LDADD = $(dataset_test_libs)
%C%_dataset_test_fresh_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=fsync
%C%_dataset_test_stamp_CFLAGS = $(test_cflags)
%C%_dataset_test_stamp_LDADD = $(dataset_test_libs)
%C%_dataset_test_stamp_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=fstatfs,--wrap=fstatat,--wrap=fstat
%C%_dataset_test_stamp_SOURCES = %D%/dataset/test_stamp.c %D%/dataset/opened.h
%C%_dataset_test_json_find_CFLAGS = $(test_cflags)
%C%_dataset_test_json_find_LDADD = $(dataset_test_libs)
%C%_dataset_test_label_CFLAGS = $(test_cflags)
%C%_dataset_test_label_LDADD = $(dataset_test_libs)
%C%_dataset_test_label_SOURCES = %D%/dataset/test_label.c %D%/dataset/opened.h
%C%_dataset_test_number_CFLAGS = $(test_cflags)
%C%_dataset_test_number_LDADD = $(dataset_test_libs)
%C%_dataset_test_mapping_CFLAGS = $(test_cflags)
%C%_dataset_test_mapping_LDADD = $(dataset_test_libs)
%C%_dataset_test_hint_cache_CFLAGS = $(test_cflags)
%C%_dataset_test_hint_cache_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=fsync
%C%_dataset_test_hint_cache_LDADD = $(dataset_test_libs)
%C%_render_test_tiles_CFLAGS = $(test_cflags)
%C%_render_test_tiles_LDADD = tests/libtree.la tests/loader/image/libimagetest.la $(loader_libs) $(JPEG_LIBS) $(PNG_LIBS) $(CRITERION_LIBS)
check_PROGRAMS += %D%/render/moved
%C%_render_moved_CFLAGS = $(AM_CFLAGS)
%C%_render_moved_LDADD = tests/loader/image/libimagetest.la $(loader_libs) $(JPEG_LIBS) $(PNG_LIBS)
check_PROGRAMS += %D%/render/drawn %D%/render/placed
%C%_render_drawn_CFLAGS = $(AM_CFLAGS)
%C%_render_drawn_LDADD = tests/loader/image/libimagetest.la $(loader_libs) $(JPEG_LIBS) $(PNG_LIBS)
%C%_render_placed_CFLAGS = $(AM_CFLAGS)
%C%_render_placed_LDADD = tests/loader/image/libimagetest.la $(loader_libs) $(JPEG_LIBS) $(PNG_LIBS)
dist_check_SCRIPTS += %D%/render/test_drawn.py %D%/render/test_moves.py %D%/render/test_placed.py
if PYTHON_FOUND
TESTS += %D%/render/test_drawn.py %D%/render/test_moves.py %D%/render/test_placed.py
endif
%C%_dataset_test_pattern_CFLAGS = $(test_cflags)
%C%_dataset_test_pattern_LDADD = $(dataset_test_libs)
%C%_dataset_test_scope_CFLAGS = $(test_cflags)
%C%_dataset_test_scope_LDADD = $(dataset_test_libs)
%C%_dataset_test_tar_CFLAGS = $(test_cflags)
%C%_dataset_test_tar_LDADD = $(dataset_test_libs)
%C%_dataset_test_tar_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=fsync,--wrap=clock_gettime
%C%_dataset_test_tar_SOURCES = %D%/dataset/test_tar.c %D%/dataset/opened.h
%C%_serve_test_blocking_CFLAGS = $(test_cflags) $(UV_CFLAGS)
%C%_serve_test_blocking_LDADD = loader/serve/libserve.la common/libcommon.la $(UV_LIBS)
%C%_serve_test_blocking_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=close
%C%_serve_test_openings_CFLAGS = $(test_cflags) $(UV_CFLAGS)
%C%_serve_test_openings_LDADD = loader/serve/libserve.la $(loader_libs) $(UV_LIBS) $(CRITERION_LIBS)
%C%_serve_test_openings_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=dataset_open,--wrap=dataset_unref
%C%_serve_test_queue_CFLAGS = $(test_cflags)
%C%_serve_test_queue_LDADD = tests/libtree.la loader/serve/libserve.la $(loader_libs) $(JPEG_LIBS) $(PNG_LIBS)
%C%_serve_test_queue_LDFLAGS = $(AM_LDFLAGS) -Wl,--wrap=dataset_read,--wrap=dataset_announce
%C%_serve_test_queue_sharing_CFLAGS = $(test_cflags)
%C%_serve_test_queue_sharing_LDADD = tests/libtree.la loader/serve/libserve.la $(loader_libs) $(JPEG_LIBS) $(PNG_LIBS)
%C%_serve_test_log_limit_CFLAGS = $(test_cflags)
%C%_serve_test_log_limit_LDADD = loader/serve/libserve.la common/libcommon.la $(CRITERION_LIBS)
%C%_serve_test_session_CFLAGS = $(test_cflags)
%C%_serve_test_session_LDADD = tests/libtree.la common/libcommon.la $(CRITERION_LIBS)
%C%_serve_test_bound_CFLAGS = $(test_cflags)
%C%_serve_test_bound_LDADD = loader/serve/libserve.la common/libcommon.la $(CRITERION_LIBS)
%C%_serve_test_renderings_CFLAGS = $(test_cflags)
%C%_serve_test_renderings_LDADD = loader/serve/libserve.la common/libcommon.la $(CRITERION_LIBS)
%C%_serve_test_fair_queue_CFLAGS = $(test_cflags)
%C%_serve_test_fair_queue_LDADD = loader/serve/libserve.la common/libcommon.la $(CRITERION_LIBS)
%C%_dataset_test_list_CFLAGS = $(test_cflags)
%C%_dataset_test_list_LDADD = tests/libtree.la loader/dataset/libdataset.la common/libcommon.la $(CRITERION_LIBS)
%C%_dataset_test_coco_SOURCES = %D%/dataset/test_coco.c %D%/dataset/detection.h %D%/dataset/opened.h
%C%_dataset_test_coco_CFLAGS = $(test_cflags)
%C%_dataset_test_coco_LDADD = tests/libtree.la loader/dataset/libdataset.la common/libcommon.la $(CRITERION_LIBS)
%C%_dataset_test_voc_SOURCES = %D%/dataset/test_voc.c %D%/dataset/detection.h %D%/dataset/opened.h
%C%_dataset_test_voc_CFLAGS = $(test_cflags)
%C%_dataset_test_voc_LDADD = tests/libtree.la loader/dataset/libdataset.la common/libcommon.la $(CRITERION_LIBS)
%C%_dataset_test_stated_size_SOURCES = %D%/dataset/test_stated_size.c
%C%_dataset_test_stated_size_CFLAGS = $(test_cflags)
%C%_dataset_test_stated_size_LDADD = tests/libtree.la loader/dataset/libdataset.la common/libcommon.la $(CRITERION_LIBS)
%C%_dataset_test_yolo_SOURCES = %D%/dataset/test_yolo.c %D%/dataset/detection.h %D%/dataset/opened.h
%C%_dataset_test_yolo_CFLAGS = $(test_cflags)
%C%_dataset_test_yolo_LDADD = tests/libtree.la loader/dataset/libdataset.la common/libcommon.la $(CRITERION_LIBS)
%C%_dataset_test_picture_size_CFLAGS = $(test_cflags)
%C%_dataset_test_picture_size_LDADD = tests/loader/image/libimagetest.la loader/dataset/libdataset.la loader/image/libimage.la common/libcommon.la $(CRITERION_LIBS)
%C%_dataset_test_block_cache_CFLAGS = $(test_cflags)
%C%_dataset_test_block_cache_LDADD = loader/dataset/libdataset.la common/libcommon.la $(CRITERION_LIBS)
%C%_dataset_test_tfrecord_CFLAGS = $(test_cflags)
%C%_dataset_test_tfrecord_LDADD = tests/libtree.la loader/dataset/libdataset.la common/libcommon.la $(CRITERION_LIBS)
%C%_dataset_test_index_CFLAGS = $(test_cflags)
%C%_dataset_test_index_LDADD = tests/libtree.la loader/dataset/libdataset.la common/libcommon.la $(CRITERION_LIBS)

if PYTHON_FOUND
TESTS += %D%/test_walls.py
TESTS += %D%/serve/test_hangs.py %D%/serve/test_hostile.py %D%/serve/test_journal.py %D%/serve/test_limits.py %D%/serve/test_roots.py %D%/serve/test_service.py %D%/serve/test_settings.py %D%/serve/test_sharing.py %D%/serve/test_status.py %D%/serve/test_unauthenticated.py
endif
EXTRA_DIST += %D%/test_walls.py %D%/serve/rawclient.py %D%/serve/test_hangs.py %D%/serve/test_hostile.py %D%/serve/test_journal.py %D%/serve/test_limits.py %D%/serve/test_roots.py %D%/serve/test_service.py %D%/serve/test_settings.py %D%/serve/test_sharing.py %D%/serve/test_status.py %D%/serve/test_unauthenticated.py %D%/serve/service.py
