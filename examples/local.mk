# SPDX-License-Identifier: MIT
# examples/: programs that people start from. They use the public headers alone.
noinst_PROGRAMS += %D%/feed %D%/train
%C%_feed_SOURCES = %D%/feed.c
%C%_feed_CPPFLAGS = -I$(top_srcdir)/include
%C%_feed_LDADD = libplenum.la
# Straight from the build folder, without libtool's wrapper script.
%C%_feed_LDFLAGS = $(AM_LDFLAGS) -no-install
%C%_train_SOURCES = %D%/train.c
%C%_train_CPPFLAGS = -I$(top_srcdir)/include
%C%_train_LDADD = libplenum.la -lm
%C%_train_LDFLAGS = $(AM_LDFLAGS) -no-install

# For people to start from.
exampledir = $(docdir)/examples
dist_example_DATA = %D%/feed.c %D%/numpy_feed.py %D%/train.c %D%/train.py
containersdir = $(exampledir)/containers
dist_containers_DATA = %D%/containers/Containerfile.loader %D%/containers/Containerfile.training
kubernetesdir = $(exampledir)/kubernetes
dist_kubernetes_DATA = %D%/kubernetes/job-mpi.yaml %D%/kubernetes/job-torchrun.yaml %D%/kubernetes/loader-daemonset.yaml %D%/kubernetes/loader-service.yaml
