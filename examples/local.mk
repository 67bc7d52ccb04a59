# examples/: programs that people start from. They use the public headers alone.
noinst_PROGRAMS += %D%/feed
%C%_feed_SOURCES = %D%/feed.c
%C%_feed_CPPFLAGS = -I$(top_srcdir)/include
%C%_feed_LDADD = libplenum.la
# Straight from the build folder, without libtool's wrapper script.
%C%_feed_LDFLAGS = $(AM_LDFLAGS) -no-install

# For people to start from.
exampledir = $(docdir)/examples
dist_example_DATA = %D%/feed.c %D%/train.py
