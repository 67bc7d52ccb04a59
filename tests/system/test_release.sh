#!/bin/bash
# SPDX-License-Identifier: MIT
# test_release.sh - scripts/release: what it rejects, and that two runs in different folders at different times produce
# the same bytes. PLENUM_WHEEL=1 also builds the wheel, which needs a network. Prints TAP; takes minutes.
. "$top_srcdir/tests/lib.sh"
cd "$T" || exit 99
command -v git >/dev/null || skip_all "git is not installed"
git -C "$top_srcdir" rev-parse -q --verify HEAD >/dev/null 2>&1 || skip_all "the sources are not a git repository"
wheel=--without-wheel
[ -z "${PLENUM_WHEEL:-}" ] || wheel=

git clone -q "$top_srcdir" one || exit 99
cd one || exit 99
git config user.name tester
git config user.email tester@example.org
# Turn the current state into a version.
version=$(sed -n 's/^AC_INIT(\[plenum\], \[\([^]]*\)\].*/\1/p' configure.ac)
sed -i "1s/.*/Plenum $version/" NEWS
sed -i '1s/UNRELEASED/unstable/' debian/changelog
git commit -q --allow-empty -am 'a version'
refuses() { # SENTENCE COMMAND...: the command fails with this message, and creates nothing
    local sentence=$1 said
    shift
    said=$("$@" 2>&1) && { echo "it succeeded"; return 1; }
    [[ $said == *"$sentence"* ]] || { echo "said: $said"; return 1; }
    [ ! -e build ]
}
ok "a missing tag is rejected" refuses "there is no tag v$version" scripts/release "v$version"
ok "a tag with a different form is rejected" refuses "not 'release-1'" scripts/release release-1
git tag "v$version"
echo >>README.md
ok "a tree with changes is rejected" refuses "the tree has changes" scripts/release "v$version"
git checkout -q README.md
: >stray
ok "a tree with an untracked file is rejected" refuses "stray" scripts/release "v$version"
rm stray
mkdir full && : >full/file && echo full >>.git/info/exclude
ok "a folder that is not empty is rejected" refuses "is not empty" scripts/release "v$version" full
for change in 'configure.ac s/^AC_INIT(\[plenum\], \[[^]]*/&9/' 'NEWS 1s/$/ (unreleased)/' 'debian/changelog 1s/(/(9/' \
    'python/pyproject.toml s/^version = "/&9/' 'python/pyplenum/__init__.py s/^__version__ = "/&9/'; do
    file=${change%% *}
    sed -i "${change#* }" "$file" && git commit -qam "another version" && git tag -f "v$version" >/dev/null
    ok "a different version in $file is rejected" refuses "$file has version" scripts/release "v$version"
    git reset -q --hard HEAD~1 && git tag -f "v$version" >/dev/null
done
git commit -q --allow-empty -m later
ok "a tag that is not checked out is rejected" refuses "git checkout v$version" scripts/release "v$version"
git reset -q --hard HEAD~1

if ! command -v dpkg-buildpackage >/dev/null || ! command -v dh >/dev/null ||
    ! dpkg-checkbuilddeps >"$T/missing" 2>&1; then
    skip "two runs produce the same bytes" \
        "a tool for building Debian packages is missing: $(tr '\n' ' ' <"$T/missing" 2>/dev/null)"
    finish
    exit
fi
cd "$T" || exit 99
cp -R one another-folder-of-the-same
ok "a release is built" one/scripts/release $wheel "v$version" "$T/first"
sleep 1
ok "the release is built again in a different, deeper folder" another-folder-of-the-same/scripts/release $wheel "v$version" \
    second/deeper/folder
differences() { # prints the sums of the files that differ
    diff first/SHA256SUMS second/deeper/folder/SHA256SUMS 2>&1
}
is "" "both results are identical" differences
ok "the checksums are right" sh -c 'cd first && sha256sum -c --quiet SHA256SUMS'
is "1 5" "the release has one source package and five binary packages" \
    sh -c 'echo $(ls first/*.tar.xz | wc -l) $(ls first/*.deb | grep -v dbgsym | wc -l)'
here() { # succeeds if no installed file contains a path of this machine
    mkdir -p open && for deb in first/*.deb; do dpkg-deb -x "$deb" open || return 1; done
    ! grep -rl "$T" open
}
ok "the release contains no path of this machine" here
finish
