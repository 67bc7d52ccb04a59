# SPDX-License-Identifier: MIT
# python/: the package pyplenum. It calls libplenum through ctypes, so nothing is compiled.
pyplenumdir = $(pythondir)/pyplenum
pyplenum_files = \
	%D%/pyplenum/__init__.py \
	%D%/pyplenum/_lib.py \
	%D%/pyplenum/_torch_carrier.py \
	%D%/pyplenum/_torch_device.py \
	%D%/pyplenum/checkpoint.py \
	%D%/pyplenum/job.py \
	%D%/pyplenum/normalise.py \
	%D%/pyplenum/mix.py \
	%D%/pyplenum/progress.py \
	%D%/pyplenum/stream.py \
	%D%/pyplenum/torch.py
if PYTHON_FOUND
pyplenum_PYTHON = $(pyplenum_files)
pyplenum_DATA = %D%/pyplenum/py.typed
endif
EXTRA_DIST += $(pyplenum_files) %D%/pyplenum/py.typed %D%/pyproject.toml %D%/setup.py \
	%D%/wheel/_pyplenum_programs.py %D%/wheel/pack.py
