# SPDX-License-Identifier: MIT
# loader/store/: objects in stores and behind HTTP. libcurl and OpenSSL only in engine.c, which is libplenum-store.so.
noinst_LTLIBRARIES += %D%/libstore.la
%C%_libstore_la_SOURCES = \
	%D%/ahead.c %D%/ahead.h \
	%D%/store_answer.c %D%/store_answer.h \
	%D%/aws_config.c %D%/aws_config.h \
	%D%/backend.c %D%/backend.h \
	%D%/bucket.c %D%/bucket.h \
	%D%/credentials.c %D%/credentials.h \
	%D%/endpoint.c %D%/endpoint.h \
	%D%/exchange.c %D%/exchange.h \
	%D%/fetch.c %D%/fetch.h \
	%D%/hedge.c %D%/hedge.h \
	%D%/hugging_face.c %D%/hugging_face.h \
	%D%/listing.c %D%/listing.h \
	%D%/store_place.c %D%/store_place.h \
	%D%/sigv4.c %D%/sigv4.h \
	%D%/store.c %D%/store.h
%C%_libstore_la_LIBADD = loader/cache/libcache.la
%C%_libstore_la_CFLAGS = $(AM_CFLAGS) $(XXH_CFLAGS)

if STORES
lib_LTLIBRARIES += libplenum-store.la
libplenum_store_la_SOURCES = %D%/engine.c %D%/backend.h
libplenum_store_la_CFLAGS = $(AM_CFLAGS) $(CURL_CFLAGS) $(OPENSSL_CFLAGS)
libplenum_store_la_LIBADD = common/libcommon.la $(CURL_LIBS) $(OPENSSL_LIBS)
libplenum_store_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version
endif
