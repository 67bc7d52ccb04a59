# SPDX-License-Identifier: MIT
# tests/fuzz/: fuzz targets. With --enable-fuzz (CC=clang) libFuzzer runs them:
#     tests/loader/image/dump --seeds SEEDS  && tests/fuzz/fuzz_image CORPUS SEEDS   (image, jpeg, png, picture_size)
#     tests/loader/image/dump --packed SEEDS && tests/fuzz/fuzz_pack CORPUS SEEDS
#     tests/fuzz/seeds wire SEEDS            && tests/fuzz/fuzz_wire CORPUS SEEDS    (wire, text, index, list, tfrecord,
#                                                                                     launcher, settings, json, npy, tar,
#                                                                                     badlist, comm_header, store, shelf, coco,
#                                                                                     yolo)
#     tests/fuzz/column_seeds.py SEEDS       && tests/fuzz/fuzz_columns CORPUS SEEDS (Parquet, MDS)
# In other builds a small driver runs them on files; `make check` includes that.
if FUZZ
fuzz_driver =
else
fuzz_driver = %D%/driver.c
TESTS += %D%/test_fuzz.sh
endif
EXTRA_DIST += %D%/driver.c %D%/test_fuzz.sh %D%/column_seeds.py
fuzz_ldflags = $(AM_LDFLAGS) $(FUZZ_LDFLAGS)

check_PROGRAMS += %D%/fuzz_badlist %D%/fuzz_coco %D%/fuzz_columns %D%/fuzz_comm_header %D%/fuzz_image %D%/fuzz_jpeg %D%/fuzz_index %D%/fuzz_json %D%/fuzz_launcher %D%/fuzz_list %D%/fuzz_hint_cache %D%/fuzz_npy %D%/fuzz_pack %D%/fuzz_picture_size %D%/fuzz_png %D%/fuzz_settings %D%/fuzz_shelf \
	%D%/fuzz_store %D%/fuzz_tar %D%/fuzz_text %D%/fuzz_tfrecord %D%/fuzz_wire %D%/fuzz_yolo %D%/seeds
%C%_fuzz_badlist_SOURCES = %D%/fuzz_badlist.c $(fuzz_driver)
%C%_fuzz_badlist_LDFLAGS = $(fuzz_ldflags)
%C%_fuzz_badlist_LDADD = loader/dataset/libdataset.la common/libcommon.la
%C%_fuzz_coco_SOURCES = %D%/fuzz_coco.c $(fuzz_driver)
%C%_fuzz_coco_LDFLAGS = $(fuzz_ldflags)
%C%_fuzz_coco_LDADD = loader/dataset/libdataset.la common/libcommon.la
%C%_fuzz_columns_SOURCES = %D%/fuzz_columns.c $(fuzz_driver)
%C%_fuzz_columns_LDFLAGS = $(fuzz_ldflags)
%C%_fuzz_columns_LDADD = loader/dataset/libdataset.la common/libcommon.la
%C%_fuzz_comm_header_SOURCES = %D%/fuzz_comm_header.c $(fuzz_driver)
%C%_fuzz_comm_header_LDFLAGS = $(fuzz_ldflags)
%C%_fuzz_comm_header_LDADD = libdist/libdist.la common/libcommon.la -ldl
%C%_fuzz_image_SOURCES = %D%/fuzz_image.c $(fuzz_driver)
%C%_fuzz_image_LDFLAGS = $(fuzz_ldflags)
%C%_fuzz_image_LDADD = tests/loader/image/libimagetest.la loader/image/libimage.la common/libcommon.la
%C%_fuzz_jpeg_SOURCES = %D%/fuzz_jpeg.c $(fuzz_driver)
%C%_fuzz_jpeg_LDFLAGS = $(fuzz_ldflags)
%C%_fuzz_jpeg_LDADD = loader/image/libimage.la common/libcommon.la
%C%_fuzz_index_SOURCES = %D%/fuzz_index.c $(fuzz_driver)
%C%_fuzz_index_LDFLAGS = $(fuzz_ldflags)
%C%_fuzz_index_LDADD = loader/dataset/libdataset.la common/libcommon.la
%C%_fuzz_launcher_SOURCES = %D%/fuzz_launcher.c $(fuzz_driver)
%C%_fuzz_launcher_CFLAGS = $(AM_CFLAGS) $(HWLOC_CFLAGS)
%C%_fuzz_launcher_LDFLAGS = $(fuzz_ldflags)
%C%_fuzz_launcher_LDADD = launcher/liblauncher.la common/libcommon.la
%C%_fuzz_json_SOURCES = %D%/fuzz_json.c $(fuzz_driver)
%C%_fuzz_json_LDFLAGS = $(fuzz_ldflags)
%C%_fuzz_json_LDADD = loader/dataset/libdataset.la common/libcommon.la
%C%_fuzz_npy_SOURCES = %D%/fuzz_npy.c $(fuzz_driver)
%C%_fuzz_npy_LDFLAGS = $(fuzz_ldflags)
%C%_fuzz_npy_LDADD = loader/dataset/libdataset.la common/libcommon.la
%C%_fuzz_pack_SOURCES = %D%/fuzz_pack.c $(fuzz_driver)
%C%_fuzz_pack_LDFLAGS = $(fuzz_ldflags)
%C%_fuzz_pack_LDADD = tests/loader/image/libimagetest.la loader/image/libimage.la common/libcommon.la
%C%_fuzz_picture_size_SOURCES = %D%/fuzz_picture_size.c $(fuzz_driver)
%C%_fuzz_picture_size_LDFLAGS = $(fuzz_ldflags)
%C%_fuzz_picture_size_LDADD = loader/dataset/libdataset.la common/libcommon.la
%C%_fuzz_png_SOURCES = %D%/fuzz_png.c $(fuzz_driver)
%C%_fuzz_png_LDFLAGS = $(fuzz_ldflags)
%C%_fuzz_png_LDADD = tests/loader/image/libimagetest.la loader/image/libimage.la common/libcommon.la
%C%_fuzz_store_SOURCES = %D%/fuzz_store.c $(fuzz_driver)
%C%_fuzz_store_LDFLAGS = $(fuzz_ldflags)
%C%_fuzz_store_LDADD = loader/store/libstore.la common/libcommon.la
%C%_fuzz_shelf_SOURCES = %D%/fuzz_shelf.c tests/loader/cache/open_shelf.h $(fuzz_driver)
%C%_fuzz_shelf_CFLAGS = $(AM_CFLAGS) $(XXH_CFLAGS)
%C%_fuzz_shelf_LDFLAGS = $(fuzz_ldflags)
%C%_fuzz_shelf_LDADD = loader/cache/libcache.la common/libcommon.la
%C%_fuzz_tar_SOURCES = %D%/fuzz_tar.c $(fuzz_driver)
%C%_fuzz_tar_LDFLAGS = $(fuzz_ldflags)
%C%_fuzz_tar_LDADD = loader/dataset/libdataset.la common/libcommon.la
%C%_fuzz_list_SOURCES = %D%/fuzz_list.c $(fuzz_driver)
%C%_fuzz_list_LDFLAGS = $(fuzz_ldflags)
%C%_fuzz_list_LDADD = loader/dataset/libdataset.la common/libcommon.la
%C%_fuzz_hint_cache_SOURCES = %D%/fuzz_hint_cache.c $(fuzz_driver)
%C%_fuzz_hint_cache_LDFLAGS = $(fuzz_ldflags)
%C%_fuzz_hint_cache_LDADD = tests/loader/image/libimagetest.la loader/dataset/libdataset.la loader/image/libimage.la common/libcommon.la
%C%_fuzz_tfrecord_SOURCES = %D%/fuzz_tfrecord.c $(fuzz_driver)
%C%_fuzz_tfrecord_LDFLAGS = $(fuzz_ldflags)
%C%_fuzz_tfrecord_LDADD = tests/libtree.la loader/dataset/libdataset.la common/libcommon.la
%C%_fuzz_settings_SOURCES = %D%/fuzz_settings.c $(fuzz_driver)
%C%_fuzz_settings_LDFLAGS = $(fuzz_ldflags)
%C%_fuzz_settings_LDADD = loader/serve/libserve.la common/libcommon.la $(INIH_LIBS)
%C%_fuzz_text_SOURCES = %D%/fuzz_text.c $(fuzz_driver)
%C%_fuzz_text_LDFLAGS = $(fuzz_ldflags)
%C%_fuzz_text_LDADD = loader/dataset/libdataset.la common/libcommon.la
%C%_fuzz_wire_SOURCES = %D%/fuzz_wire.c $(fuzz_driver)
%C%_fuzz_wire_LDFLAGS = $(fuzz_ldflags)
%C%_fuzz_wire_LDADD = common/libcommon.la
%C%_fuzz_yolo_SOURCES = %D%/fuzz_yolo.c $(fuzz_driver)
%C%_fuzz_yolo_LDFLAGS = $(fuzz_ldflags)
%C%_fuzz_yolo_LDADD = loader/dataset/libdataset.la common/libcommon.la
%C%_seeds_SOURCES = %D%/seeds.c
%C%_seeds_CFLAGS = $(AM_CFLAGS) $(HWLOC_CFLAGS)
%C%_seeds_LDADD = tests/libtree.la loader/dataset/libdataset.la launcher/liblauncher.la common/libcommon.la
