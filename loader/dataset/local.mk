# SPDX-License-Identifier: MIT
# loader/dataset/: where the bytes of samples come from. libarchive only in tar_reader.c, protobuf-c only in tfrecord.c,
# libzstd and zlib only in unpack.c. exif.c is the only part of loader/image that it needs: labels of YOLO depend on the
# orientation.
noinst_LTLIBRARIES += %D%/libdataset.la %D%/libexample.la
%C%_libdataset_la_SOURCES = \
	%D%/annotated.c %D%/annotated.h \
	%D%/archive.c %D%/archive.h \
	%D%/badlist.c %D%/badlist.h \
	%D%/block_cache.c %D%/block_cache.h \
	%D%/cache.c %D%/cache.h %D%/cache_limit.c %D%/cache_limit.h \
	%D%/coco.c \
	%D%/coco_file.c %D%/coco_file.h \
	%D%/compare.c \
	%D%/dataset.c %D%/dataset.h %D%/dataset_priv.h \
	%D%/field_json.c %D%/field_json.h \
	%D%/field_instances.c \
	%D%/field_keypoints.c \
	%D%/field_outline.c %D%/field_outline.h \
	%D%/field_value.c %D%/field_value.h \
	%D%/field_scan.c \
	%D%/field_table.c %D%/field_table.h %D%/field_table_priv.h \
	%D%/fingerprint.c \
	%D%/folder.c \
	%D%/format.h \
	%D%/formats.c \
	%D%/generated.c \
	%D%/index.c %D%/index.h \
	%D%/index_builder.c %D%/index_builder.h \
	%D%/index_warning.c \
	%D%/indexing.c \
	%D%/json_find.c %D%/json_find.h \
	%D%/json_stream.c %D%/json_stream.h \
	%D%/kept_table.c %D%/kept_table.h \
	%D%/known_bad.c \
	%D%/list.c \
	%D%/listfile.c %D%/listfile.h \
	%D%/mapping.c %D%/mapping.h \
	%D%/mds.c \
	%D%/mds_index.c %D%/mds_index.h \
	%D%/mds_shard.c %D%/mds_shard.h \
	%D%/mixed.c %D%/mixed.h \
	%D%/beside.c %D%/beside.h \
	%D%/selection.c %D%/selection.h \
	%D%/set_table.c %D%/set_table.h %D%/set_table_kept.c %D%/set_table_kept.h \
	%D%/weighing.c %D%/weighing.h \
	%D%/relabel.c %D%/relabel.h \
	%D%/name.c \
	%D%/hint_cache.c %D%/hint_cache.h \
	%D%/npy.c %D%/npy.h \
	%D%/number.c %D%/number.h \
	%D%/bit_packed.c %D%/bit_packed.h \
	%D%/picture_size.c %D%/picture_size.h \
	%D%/parquet.c \
	%D%/parquet_cursor.c \
	%D%/parquet_features.c %D%/parquet_features.h \
	%D%/parquet_fields.c %D%/parquet_set.h \
	%D%/parquet_file.c %D%/parquet_file.h \
	%D%/parquet_page.c %D%/parquet_page.h \
	%D%/pattern.c %D%/pattern.h \
	%D%/remote.c %D%/remote.h \
	%D%/scope.c %D%/scope.h \
	%D%/sidecar.c %D%/sidecar.h \
	%D%/source.c %D%/source.h \
	%D%/sample_fields.c \
	%D%/sample_file.c \
	%D%/stamp.c %D%/stamp.h \
	%D%/stated_size.c \
	%D%/detection_hint.c \
	%D%/checksums.c %D%/checksums.h \
	%D%/class_list.c %D%/class_list.h \
	%D%/label.c %D%/label.h \
	%D%/skipped.c %D%/skipped.h \
	%D%/tar.c \
	%D%/tar_fields.c %D%/tar_fields.h \
	%D%/tar_reader.c %D%/tar_reader.h \
	%D%/tar_writer.c %D%/tar_writer.h \
	%D%/tfrecord.c \
	%D%/thrift.c %D%/thrift.h \
	%D%/unpack.c %D%/unpack.h \
	%D%/voc.c %D%/voc_xml.c %D%/voc_xml.h \
	%D%/yolo.c %D%/yolo_label.c %D%/yolo_label.h %D%/yolo_yaml.c %D%/yolo_yaml.h \
	loader/image/exif.c loader/image/exif.h
%C%_libdataset_la_CFLAGS = $(AM_CFLAGS) $(ARCHIVE_CFLAGS) $(PROTOBUF_C_CFLAGS) $(XXH_CFLAGS) $(ZLIB_CFLAGS) $(ZSTD_CFLAGS)
%C%_libdataset_la_LIBADD = %D%/libexample.la loader/store/libstore.la common/libcommon.la $(ARCHIVE_LIBS) $(PROTOBUF_C_LIBS) $(ZLIB_LIBS) $(ZSTD_LIBS) -lm

# protoc-c's output does not compile without warnings.
nodist_%C%_libexample_la_SOURCES = %D%/example.pb-c.c %D%/example.pb-c.h
%C%_libexample_la_CFLAGS = -pthread $(SAN_CFLAGS) $(PROTOBUF_C_CFLAGS)
%D%/example.pb-c.c: %D%/example.proto
	$(AM_V_GEN)$(MKDIR_P) %D% && $(PROTOC_C) --proto_path=$(srcdir)/%D% --c_out=%D% $(srcdir)/%D%/example.proto
%D%/example.pb-c.h: %D%/example.pb-c.c
	@test -f $@ || { rm -f $< && $(MAKE) $(AM_MAKEFLAGS) $<; }
BUILT_SOURCES += %D%/example.pb-c.h
# BUILT_SOURCES are built only for `all` and `check`; this rule covers `make plenumd` and other single targets.
$(%C%_libdataset_la_OBJECTS): %D%/example.pb-c.h
CLEANFILES += %D%/example.pb-c.c %D%/example.pb-c.h
EXTRA_DIST += %D%/example.proto
