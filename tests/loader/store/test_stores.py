# SPDX-License-Identifier: MIT
"""Data sets in a store give the hash of the same files on disk, whatever the server and the network do."""

import email.utils
import hashlib
import json
import os
import re
import select
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.parse

SOURCE, BUILD = os.environ["top_srcdir"], os.environ["top_builddir"]
sys.path.insert(0, os.path.join(SOURCE, "tests", "python"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import tap  # noqa: E402
import store_server  # noqa: E402

CTL, READER = os.path.join(BUILD, "plenumctl"), os.path.join(BUILD, "tests", "loader", "store", "reader")
SIGNER = os.path.join(BUILD, "tests", "loader", "store", "signer")
PIPELINE = "rrc(32)"
RANGES = int(os.environ.get("PLENUM_STORE_RANGES", "3000"))
SEED = int(os.environ.get("PLENUM_STORE_SEED", "1"))

if not os.path.exists(os.path.join(BUILD, ".libs", "libplenum-store.so")):
    tap.skip_all("built without libcurl")


def run(*command, env=None, **more):
    return subprocess.run(command, capture_output=True, text=True, env=env, stdin=subprocess.DEVNULL, **more)


class Stores(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="plenum-stores-")
        cls.images = os.path.join(cls.folder, "images")
        cls.shards = os.path.join(cls.folder, "shards")
        os.mkdir(cls.shards)
        made = run(CTL, "make-sample", "--classes", "4", "--images", "30", "--size", "100", cls.images)
        assert made.returncode == 0, made.stderr
        cls.make_shards()
        cls.local = cls.ctl_hash(f"tar:{cls.shards}", os.environ)

    @classmethod
    def make_shards(cls):
        """Write three archives with labels."""
        import io
        import tarfile

        names = sorted(os.path.join(c, n) for c in os.listdir(cls.images) if os.path.isdir(os.path.join(cls.images, c))
                       for n in os.listdir(os.path.join(cls.images, c)))
        classes = sorted({os.path.dirname(n) for n in names})
        for shard in range(3):
            with tarfile.open(os.path.join(cls.shards, f"train-{shard:03}.tar"), "w", format=tarfile.USTAR_FORMAT) as t:
                for i, name in enumerate(names[shard::3]):
                    with open(os.path.join(cls.images, name), "rb") as f:
                        image = f.read()
                    label = str(classes.index(os.path.dirname(name))).encode()
                    for end, content in ((os.path.splitext(name)[1], image), (".cls", label)):
                        info = tarfile.TarInfo(f"{i:06}{end}")
                        info.size = len(content)
                        t.addfile(info, io.BytesIO(content))

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def setUp(self):
        self.cache = tempfile.mkdtemp(dir=self.folder)
        self.store = store_server.Store()
        self.store.put_folder("/data/sets", self.shards)
        self.env = {"PATH": os.environ["PATH"], "HOME": self.cache, "PLENUM_CACHE_DIR": self.cache,
                    "LD_LIBRARY_PATH": os.environ.get("LD_LIBRARY_PATH", ""),
                    "AWS_ENDPOINT_URL": self.store.url, "AWS_REGION": store_server.REGION,
                    "AWS_ACCESS_KEY_ID": store_server.KEY_ID, "AWS_SECRET_ACCESS_KEY": store_server.SECRET,
                    "AWS_EC2_METADATA_DISABLED": "true", "PLENUM_STORE_TIMEOUT": "20s", "PLENUM_STORE_RETRY": "2s"}

    def tearDown(self):
        self.store.close()

    @staticmethod
    def ctl_hash(name, env, *options):
        got = run(CTL, "hash", name, "--pipeline", PIPELINE, *options, env=dict(env))
        return got.stdout.strip() if got.returncode == 0 else got.stderr.strip()

    def hash(self, name, *options):
        return self.ctl_hash(name, self.env, *options)

    def test_names(self):
        """patterns, braces, folders and single archives give the hash of the files"""
        for name in ("tar:s3://data/sets/train-{000..002}.tar", "s3://data/sets/train-*.tar", "tar:s3://data/sets",
                     "tar:s3://data/sets/", "s3://data/sets/train-{000,001,002}.tar"):
            self.assertEqual(self.hash(name), self.local, name)
        one = self.ctl_hash(os.path.join(self.shards, "train-001.tar"), os.environ)
        self.assertEqual(self.hash("s3://data/sets/train-001.tar"), one)
        self.assertIn("no object matches 's3://data/sets/test-*.tar'", self.hash("tar:s3://data/sets/test-*.tar"))
        self.assertIn("there is no such object", self.hash("tar:s3://data/sets/train-{000..003}.tar"))
        self.assertIn("no *.tar below s3://data/other/", self.hash("tar:s3://data/other"))

    def test_plan(self):
        """a set of a plan may be in a store"""
        def plan(shards):
            path = os.path.join(self.shards, "..", "plan")
            with open(path, "w", encoding="utf-8") as file:
                file.write(f"set a 2 tar:{shards}/train-000.tar\nset b 1 tar:{shards}/train-{{001..002}}.tar\n"
                           "labels stack\n")
            return "@" + os.path.normpath(path)

        local = self.ctl_hash(plan(self.shards), os.environ)
        self.assertRegex(local, "^[0-9a-f]{16}$")
        self.assertEqual(self.hash(plan("s3://data/sets")), local)

    def test_ahead(self):
        """plenumctl hash fetches samples in advance, and neighbours together"""
        self.assertEqual(self.hash("tar:s3://data/sets"), self.local)
        before = self.store.count
        self.assertEqual(self.hash("tar:s3://data/sets"), self.local)
        self.assertLess(self.store.count - before, 60)  # for 120 samples

    def make(self, *programs):
        """Return a folder with files of other formats, which are also in the store."""
        made = os.path.join(self.cache, "made")
        for program, out in programs:
            os.makedirs(os.path.join(made, out))
            done = run(sys.executable, os.path.join(SOURCE, "tests", "e2e", program), self.images,
                       os.path.join(made, out))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.store.put_folder(f"/data/{out}", os.path.join(made, out))
        return made

    def random_faults(self, share):
        self.store.fault = store_server.Faults(self.store, SEED, share,
                                               [k for k in store_server.Faults.KINDS if k != "stall"])

    def test_formats(self):
        """Parquet files, TFRecords, fields, and archives with labels beside them give the hash of the files"""
        made = self.make(("columns.py", "columns"), ("bad_archives.py", "archives"))
        for name, options in (("parquet:columns/hf.parquet", ("--fields", "caption")),
                              ("parquet:columns/dict-snappy.parquet", ()), ("parquet:columns/flat-*.parquet", ()),
                              ("tfrecord:archives/good.tfrecord", ("--fields", "name:image/filename")),
                              ("tar:archives/good.tar", ())):
            form, where = name.split(":")
            local = self.ctl_hash(f"{form}:{made}/{where}", os.environ, *options)
            self.assertRegex(local, "^[0-9a-f]{16}$", name)
            self.assertEqual(self.hash(f"{form}:s3://data/{where}", *options), local, name)
        self.store.put("/data/columns/hf.parquet", self.store.objects["/data/columns/hf.parquet"][:-9])
        self.assertRegex(self.hash("parquet:s3://data/columns/hf.parquet"),
                         r"^plenumctl hash: .*s3://data/columns/hf.parquet: [^:]*it ")

    def test_mds(self):
        """MDS shards, compressed or not, give the hash of the files: with faults, without listings, and behind HTTP"""
        made = self.make(("columns.py", "columns"))
        fields = ("--fields", "caption")
        want = self.ctl_hash(f"mds:{made}/columns/mds", os.environ, *fields)
        self.assertRegex(want, "^[0-9a-f]{16}$")
        self.random_faults(0.1)
        for name in ("mds", "mds-snappy", "mds/", "mds/index.json", "mds-{snappy,gz}"):
            local = self.ctl_hash(f"mds:{made}/columns/{name}", os.environ, *fields)
            if "compressed with" in local:
                continue  # this build cannot read it
            self.assertEqual(self.hash(f"mds:s3://data/columns/{name}", *fields), local, name)
        self.assertGreater(self.store.faults, 5)
        self.store.fault, self.store.may_list, self.store.signed = None, False, False
        self.env["AWS_NO_SIGN_REQUEST"], self.env["PLENUM_CACHE_DIR"] = "1", tempfile.mkdtemp(dir=self.folder)
        self.assertEqual(self.hash("mds:s3://data/columns/mds-snappy", *fields), want)
        self.assertEqual(self.hash(f"mds:{self.store.url}/data/columns/mds", *fields), want)
        before = self.store.count
        self.assertEqual(run(CTL, "index", "mds:s3://data/columns/mds", env=self.env).returncode, 0)
        first, before = self.store.count - before, self.store.count
        self.assertEqual(run(CTL, "index", "mds:s3://data/columns/mds", env=self.env).returncode, 0)
        again = self.store.count - before
        self.assertLess(again, first / 2)  # the index was used
        self.store.put("/data/columns/mds/index.json", self.store.objects["/data/columns/mds/index.json"] + b"\n")
        before = self.store.count
        self.assertEqual(run(CTL, "index", "mds:s3://data/columns/mds", env=self.env).returncode, 0)
        self.assertGreater(self.store.count - before, 2 * again)  # after a change, the index is not used
        del self.store.objects["/data/columns/mds/shard.00001.mds"]
        self.assertIn("s3://data/columns/mds/shard.00001.mds: there is no such object",
                      self.hash("mds:s3://data/columns/mds"))
        self.assertIn("s3://data/columns/no/index.json", self.hash("mds:s3://data/columns/no"))

    def write_list(self, name, rows, header="path,label,note"):
        path = os.path.join(self.images, name)
        with open(path, "w", encoding="utf-8") as f:
            f.write("".join(f"{line}\n" for line in [header, *rows]))
        self.addCleanup(os.unlink, path)
        with open(path, "rb") as f:
            self.store.put(f"/data/lists/{name}", f.read())
        return path

    def rows(self, prefix=""):
        folders = sorted(c for c in os.listdir(self.images) if os.path.isdir(os.path.join(self.images, c)))
        return [f"{prefix}{c}/{n},{i},note {n}" for i, c in enumerate(folders)
                for n in sorted(os.listdir(os.path.join(self.images, c)))]

    def test_lists(self):
        """lists of images, beside them or on a disk, give the hash of the files, also with fields and faults"""
        self.store.put_folder("/data/lists", self.images)
        path, fields = self.write_list("train.csv", self.rows()), ("--fields", "note")
        self.write_list("dots.csv", self.rows("./"))
        self.write_list("names.csv", self.rows("s3://data/lists/"))
        want = self.ctl_hash(f"list:{path}", os.environ, *fields)
        self.assertRegex(want, "^[0-9a-f]{16}$")
        self.random_faults(0.1)
        for name in ("list:s3://data/lists/train.csv", "list:s3://data/lists/dots.csv",
                     "list:s3://data/lists/names.csv", "list,base=s3\\://data/lists/:" + path):
            self.assertEqual(self.hash(name, *fields), want, name)
        self.assertGreater(self.store.faults, 5)
        only = (*fields, "--pipeline", "none")
        without = self.ctl_hash(f"list,image=none:{path}", os.environ, *only)
        self.assertRegex(without, "^[0-9a-f]{16}$")
        self.assertEqual(self.hash("list,image=none:s3://data/lists/train.csv", *only), without)
        self.store.fault, self.store.may_list, self.store.signed = None, False, False
        self.env["AWS_NO_SIGN_REQUEST"], self.env["PLENUM_CACHE_DIR"] = "1", tempfile.mkdtemp(dir=self.folder)
        self.assertEqual(self.hash("list:s3://data/lists/train.csv", *fields), want)
        self.assertEqual(self.hash(f"list:{self.store.url}/data/lists/train.csv", *fields), want)

    def test_list_fingerprint(self):
        """a list in a store is the same data set as on a disk"""
        self.store.put_folder("/data/lists", self.images)
        path = self.write_list("train.csv", self.rows())

        def fingerprint(name, env):
            got = run(CTL, "index", name, "--json", env=env)
            self.assertEqual(got.returncode, 0, got.stderr)
            return json.loads(got.stdout)["fingerprint"]

        self.assertEqual(fingerprint("list:s3://data/lists/train.csv", self.env),
                         fingerprint(f"list:{path}", dict(self.env, PLENUM_CACHE_DIR=self.cache + "/local")))

    def test_list_errors(self):
        """rows of a list that name no object, and images that change, give an error"""
        self.store.put_folder("/data/lists", self.images)
        rows = self.rows()
        for row, message in (("no.jpg,0,x", "s3://data/lists/no.jpg: there is no such object"),
                             ("/etc/passwd,0,x", "line 2: '/etc/passwd' is a path on a disk"),
                             ("../sets/train-000.tar,0,x", "'.' and '..' cannot be parts of its path")):
            self.write_list("bad.csv", [row, *rows])
            self.assertIn(message, self.hash("list:s3://data/lists/bad.csv"))
            self.doCleanups()
        self.assertIn("name the list, not only its bucket", self.hash("list:s3://data"))
        name = "list:s3://data/lists/train.csv"
        self.write_list("train.csv", rows)
        want = self.hash(name)
        self.assertRegex(want, "^[0-9a-f]{16}$")
        image = "/data/lists/" + rows[5].partition(",")[0]
        content = self.store.objects[image]
        self.store.put(image, content + b" ")
        self.assertRegex(self.hash(name), f"s3:/{image} has changed since the data set was indexed")
        self.store.put(image, content)
        self.assertEqual(self.hash(name), want)

    def test_http(self):
        """archives behind HTTP give the hash of the files"""
        self.store.signed = False
        self.assertEqual(self.hash(f"tar:{self.store.url}/data/sets/train-{{000..002}}.tar"), self.local)
        self.assertIn("have no listings", self.hash(f"tar:{self.store.url}/data/sets/train-*.tar"))

    def test_pages(self):
        """listings of many pages are read to the end"""
        self.store.page = 2
        self.assertEqual(self.hash("tar:s3://data/sets/train-*.tar"), self.local)
        self.assertEqual(self.hash("tar:s3://data/sets/train-{000..002}.tar"), self.local)

    def test_no_listing(self):
        """without the right to list, objects are requested one by one"""
        self.store.may_list = False
        self.assertEqual(self.hash("tar:s3://data/sets/train-{000..002}.tar"), self.local)
        self.assertIn("403 AccessDenied", self.hash("tar:s3://data/sets/train-*.tar"))

    def test_index(self):
        """a second opening reads no headers, and notices a changed object"""
        name = "tar:s3://data/sets/train-{000..002}.tar"
        index = run(CTL, "index", name, env=self.env)
        self.assertEqual(index.returncode, 0, index.stderr)
        before = self.store.count
        index = run(CTL, "index", name, env=self.env)
        self.assertEqual(index.returncode, 0, index.stderr)
        self.assertLess(self.store.count - before, 4)
        self.store.put("/data/sets/train-001.tar", self.store.objects["/data/sets/train-002.tar"])
        self.assertNotEqual(self.hash(name), self.local)

    def test_upload(self):
        """while an uploaded index matches, no headers are read"""
        name = "tar:s3://data/sets/train-{000..002}.tar"

        def index(*options):
            self.env["PLENUM_CACHE_DIR"], before = tempfile.mkdtemp(dir=self.folder), self.store.count
            got = run(CTL, "index", name, *options, env=self.env)
            self.assertEqual(got.returncode, 0, got.stderr)
            return self.store.count - before, re.search(r"fingerprint +(\w+)", got.stdout).group(1)

        failing, before = [3], list(self.store.objects)

        def busy(request, path):
            failing[0] -= request.command == "PUT"
            if request.command == "PUT" and failing[0] >= 0:
                raise store_server.Answer(503, "SlowDown")
            return False

        self.store.fault = busy
        _, fingerprint = index("--upload")
        self.assertLess(failing[0], 0)
        (sidecar,) = set(self.store.objects) - set(before)
        self.assertRegex(sidecar, r"^/data/sets/\.plenum-[0-9a-f]{16}\.index$")
        second, again = index()
        self.assertLess(second, 10)
        self.assertEqual(again, fingerprint)
        self.assertEqual(self.hash(name), self.local)
        self.store.put("/data/sets/train-001.tar", self.store.objects["/data/sets/train-002.tar"])
        self.assertGreater(index()[0], 20)  # it no longer matches
        self.assertEqual(index("--upload")[1], index()[1])
        whole = self.store.objects[sidecar]
        for bad in (b"", whole[:-1], whole[:1000] + b"x" + whole[1001:]):
            self.store.put(sidecar, bad)
            self.assertGreater(index()[0], 20)
        local = run(CTL, "index", f"tar:{self.shards}", "--upload", env=self.env)
        self.assertIn("only an index of archives in a store can be uploaded", local.stderr)

    def test_racy(self):
        """without an ETag, a time proves nothing while it is recent"""
        self.store.signed = False
        name, when = f"tar:{self.store.url}/data/sets/train-000.tar", [0]

        def no_etag(request, path):
            status, body, headers = self.store.get(path, request.headers.get("Range"))
            del headers["ETag"]
            headers["Last-Modified"] = email.utils.formatdate(when[0], usegmt=True)
            request.send(status, body, headers)
            return True

        self.store.fault = no_etag
        for age, again in ((0, True), (1, True), (100, False)):
            when[0] = int(time.time()) - age + (10 if again else 0)  # the server's time is ours, or later
            counts = []
            for _ in range(2):
                before = self.store.count
                index = run(CTL, "index", name, env=self.env)
                self.assertEqual(index.returncode, 0, index.stderr)
                counts.append(self.store.count - before)
            self.assertEqual(counts[1] > 10, again, (age, counts))

    def test_errors(self):
        """errors name the object, the status, the request and the remedy"""
        name = "tar:s3://data/sets/train-{000..002}.tar"
        self.env["AWS_SECRET_ACCESS_KEY"] = "wrong"
        self.assertRegex(self.hash(name), r"s3://data/sets/train-00\d.tar: the server answered 403 "
                         r"SignatureDoesNotMatch \(request REQ\d+\): the secret key does not belong to the access key")
        self.env["AWS_SECRET_ACCESS_KEY"] = store_server.SECRET
        self.assertIn("there is no such bucket", self.hash("tar:s3://nothing/x.tar"))
        self.store.token = "fresh"
        self.assertRegex(self.hash(name), r"400 ExpiredToken .*: the credentials \(AWS_ACCESS_KEY_ID\) have expired")
        self.store.token = None
        for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            del self.env[key]
        self.assertIn("there are no credentials for S3 on this host", self.hash(name))
        self.env["AWS_NO_SIGN_REQUEST"] = "1"
        self.assertIn("it is not public", self.hash(name))
        self.store.signed = False
        self.assertEqual(self.hash(name), self.local)

    def test_endpoints(self):
        """an endpoint that is missing or malformed never becomes AWS"""
        name = "tar:s3://data/sets/train-000.tar"
        for url, message in (("", "AWS_ENDPOINT_URL is set, but empty"),
                             ("minio:9000", "is not the URL of an endpoint"),
                             ("ftp://minio", "is not the URL of an endpoint"),
                             ("s3://minio", "is not the URL of an endpoint")):
            self.env["AWS_ENDPOINT_URL"] = url
            self.assertIn(message, self.hash(name))
        del self.env["AWS_ENDPOINT_URL"], self.env["AWS_REGION"]
        self.assertIn("neither an endpoint nor a region is configured", self.hash(name))
        self.assertEqual(self.store.count, 0)

    def test_profiles(self):
        """a profile gives credentials and the endpoint"""
        aws = os.path.join(self.cache, ".aws")
        os.mkdir(aws)
        with open(os.path.join(aws, "credentials"), "w", encoding="utf-8") as f:
            f.write("[default]\naws_access_key_id = no\naws_secret_access_key = no\n[test]\n"
                    f"aws_access_key_id={store_server.KEY_ID}\naws_secret_access_key = {store_server.SECRET}\n")
        with open(os.path.join(aws, "config"), "w", encoding="utf-8") as f:
            f.write(f"[profile test]\nregion = {store_server.REGION}\nendpoint_url = {self.store.url}\n")
        for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL", "AWS_REGION"):
            del self.env[key]
        self.env["AWS_PROFILE"] = "test"
        self.assertEqual(self.hash("tar:s3://data/sets"), self.local)
        self.env["AWS_PROFILE"] = "absent"
        self.assertIn("AWS_PROFILE is 'absent'", self.hash("tar:s3://data/sets"))

    def test_renewal(self):
        """credentials come from a container, an instance or web identity, and are renewed when they expire"""
        state = {"asked": 0}

        def give(request, key="Token"):
            state["asked"] += 1
            self.store.token = f"token-{state['asked']}"
            request.send(200, (f'{{"AccessKeyId": "{store_server.KEY_ID}", "SecretAccessKey": '
                               f'"{store_server.SECRET}".replace("/", "\\/"), "{key}": "{self.store.token}", '
                               '"Expiration": "2036-01-01T00:00:00Z"}')
                         .replace('".replace("/", "\\/")', '"').encode())

        def give_sts(request):
            state["asked"] += 1
            self.store.token = f"token-{state['asked']}"
            request.send(200, ("<AssumeRoleWithWebIdentityResponse><Result><Credentials>"
                               f"<SessionToken>{self.store.token}</SessionToken><AccessKeyId>{store_server.KEY_ID}"
                               f"</AccessKeyId><SecretAccessKey>{store_server.SECRET}</SecretAccessKey>"
                               "<Expiration>2036-01-01T00:00:00Z</Expiration></Credentials></Result>"
                               "</AssumeRoleWithWebIdentityResponse>").encode())

        folder = "/latest/meta-data/iam/security-credentials/"
        self.store.routes.update({"/creds": give, "/latest/api/token": lambda r: r.send(200, b"session"),
                                  folder: lambda r: r.send(200, b"role"), folder + "role": give, "/": give_sts})
        token = os.path.join(self.cache, "token")
        with open(token, "w", encoding="utf-8") as f:
            f.write("a web token\n")
        for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_EC2_METADATA_DISABLED"):
            del self.env[key]
        base = dict(self.env)
        for more in ({"AWS_CONTAINER_CREDENTIALS_FULL_URI": self.store.url + "/creds"},
                     {"AWS_EC2_METADATA_SERVICE_ENDPOINT": self.store.url},
                     {"AWS_ENDPOINT_URL_STS": self.store.url, "AWS_WEB_IDENTITY_TOKEN_FILE": token,
                      "AWS_ROLE_ARN": "arn:aws:iam::1:role/r"}):
            self.env = dict(base, **more, PLENUM_CACHE_DIR=tempfile.mkdtemp(dir=self.folder))
            state["asked"], left = 0, [30]

            def expire(request, path, left=left):
                left[0] -= 1
                if left[0] == 0:
                    self.store.token = "another"  # what was given is refused from now on
                return False

            self.store.fault = expire
            self.assertEqual(self.hash("tar:s3://data/sets"), self.local, more)
            self.assertEqual(state["asked"], 2)
        self.env = dict(base, AWS_CONTAINER_CREDENTIALS_FULL_URI="http://example.org/creds")
        self.assertIn("must begin with https://", self.hash("tar:s3://data/sets"))

    def test_faults(self):
        """random faults change neither the hash nor a byte"""
        faults = store_server.Faults(self.store, SEED, 0.3, [k for k in store_server.Faults.KINDS if k != "stall"])
        self.store.fault = faults
        self.assertEqual(self.hash("tar:s3://data/sets/train-*.tar"), self.local)
        self.assertGreater(self.store.faults, 20)
        got = run(READER, "s3://data/sets/train-000.tar", os.path.join(self.shards, "train-000.tar"), str(RANGES),
                  str(SEED), "20000", env=self.env)
        self.assertEqual(got.returncode, 0, got.stdout + got.stderr)
        self.assertGreater(self.store.faults, RANGES // 5)
        self.assertEqual(set(faults.counts), set(faults.kinds))

    def test_stalls(self):
        """a connection that stalls is abandoned"""
        self.env["PLENUM_STORE_TIMEOUT"] = "300ms"
        self.env["PLENUM_STORE_RETRY"] = "100s"
        self.store.fault = store_server.Faults(self.store, SEED, 0.1, ["stall"], stall_s=1.5)
        self.assertEqual(self.hash("tar:s3://data/sets/train-*.tar"), self.local)
        self.assertGreater(self.store.faults, 0)

    def test_storm(self):
        """a server that always answers 503 causes an error, after many tries"""
        self.env["PLENUM_STORE_RETRY"] = "1s"
        self.store.fault = store_server.Faults(self.store, SEED, 1, ["slow"])
        self.assertRegex(self.hash("tar:s3://data/sets/train-000.tar"),
                         r"no success in \d+ tries; the last: the server answered 503 SlowDown \(request REQ\d+\)")

    def test_changed(self):
        """an object that changes while it is read is an error that names it"""
        name = "tar:s3://data/sets/train-{000..002}.tar"
        self.assertEqual(self.hash(name), self.local)
        changed = []

        def change(request, path):
            if (request.headers["Range"] or "").endswith("0-0") or "list-type" in request.path or changed:
                return False
            changed.append(path)  # the first range of a sample
            for each in list(self.store.objects):
                self.store.put(each, self.store.objects[each] + bytes(512))
            return False

        self.store.fault = change
        self.assertRegex(self.hash(name), r"s3://data/sets/train-00\d.tar has changed since the data set was indexed")

    def test_ignored_range(self):
        """a server without ranges is used near the beginning of an object, and rejected further on"""
        self.store.fault = store_server.Faults(self.store, SEED, 1, ["whole"])
        self.assertEqual(self.hash("tar:s3://data/sets/train-*.tar"), self.local)
        self.store.put("/data/big.tar", self.store.objects["/data/sets/train-000.tar"] + bytes(9 << 20))
        self.assertIn("the server ignores ranges", run(READER, "s3://data/big.tar", self.big(), "160", "1",
                                                       env=self.env).stdout)

    def big(self):
        path = os.path.join(self.folder, "big.tar")
        with open(path, "wb") as f:
            f.write(self.store.objects["/data/big.tar"])
        return path

    def test_redirects(self):
        """redirections are followed, also when they expire"""
        self.store.signed = False
        content = self.store.objects["/data/sets/train-000.tar"]
        self.store.put("/cdn/file.tar", content)
        url = f"{self.store.url}/go/file.tar"

        def go(request):
            request.send(302, headers={"Location": f"/cdn/file.tar?signature={self.store.count}"})

        self.store.routes["/go/file.tar"] = go
        one = self.ctl_hash(os.path.join(self.shards, "train-000.tar"), os.environ)
        self.assertEqual(self.hash(f"tar:{url}"), one)
        signed = [p for _, p, _ in self.store.log if p.startswith("/cdn/")]
        self.assertLess(len(set(signed)), len(signed) / 2)  # a redirection is used more than once
        left = [10]

        def refuse(request, path):
            left[0] -= 1
            if path.startswith("/cdn/") and left[0] == 0:
                raise store_server.Answer(403, "AccessDenied")
            return False

        self.store.fault = refuse
        self.assertEqual(self.hash(f"tar:{url}"), one)
        self.store.routes["/go/file.tar"] = lambda r: r.send(302, headers={"Location": url})
        self.env["PLENUM_CACHE_DIR"] = tempfile.mkdtemp(dir=self.folder)
        self.assertIn("redirects too often", self.hash(f"tar:{url}"))

    def test_oracle(self):
        """our signatures equal libcurl's"""
        if not shutil.which("curl") or "--aws-sigv4" not in run("curl", "--help", "all").stdout:
            self.skipTest("curl is not installed, or too old")
        sha = hashlib.sha256(b"").hexdigest()
        for key in ("plain.tar", "a/b c", "a+b=c&d", "~x-._", "\u00e9\u4e2d", "(1)!*'", "a%20b", "a;b:c@d,e"):
            seen = {}

            def see(request, seen=seen):
                seen.update(request.headers, path=request.path)
                request.send(200)

            self.store.routes[f"/data/{key}"] = see
            url = f"{self.store.url}/data/{urllib.parse.quote(key, safe='/-._~')}?a-b=1&list-type=2&prefix=x%2Fy%20z"
            got = run("curl", "-s", "-S", "--path-as-is", "--aws-sigv4", f"aws:amz:{store_server.REGION}:s3", "--user",
                      f"{store_server.KEY_ID}:{store_server.SECRET}", "-H", f"x-amz-content-sha256: {sha}", url)
            self.assertEqual(got.returncode, 0, got.stderr)
            ours = run(SIGNER, f"/data/{key}", seen["path"].partition("?")[2], seen["Host"],
                       seen["X-Amz-Date"], store_server.REGION, store_server.KEY_ID, store_server.SECRET).stdout.strip()
            self.assertEqual(ours, seen["Authorization"], key)

    def start_loader(self, *options):
        path = os.path.join(self.cache, "loader.sock")
        loader = subprocess.Popen([os.path.join(BUILD, "plenumd"), "--socket", f"unix:{path}", *options], env=self.env,
                                  stderr=subprocess.PIPE, text=True)
        self.addCleanup(loader.stderr.close)
        self.addCleanup(loader.wait)
        self.addCleanup(loader.terminate)
        while not os.path.exists(path) and loader.poll() is None:
            select.select([], [], [], 0.02)
        return f"unix:{path}"

    def feed(self, name, loader, *options):
        got = run(os.path.join(BUILD, "examples", "feed"), name, "--loader", loader, "--pipeline", PIPELINE,
                  *options, env=self.env)
        return got.stdout + got.stderr

    def test_stream(self):
        """a stream through a loader has the hash of the files, also with faults"""
        loader = self.start_loader("--root", "s3://data/sets")
        self.assertIn(self.local, self.feed("tar:s3://data/sets", loader))
        self.store.fault = store_server.Faults(self.store, SEED, 0.2,
                                               [k for k in store_server.Faults.KINDS if k != "stall"])
        self.assertIn(self.local, self.feed("tar:s3://data/sets/train-{000..002}.tar", loader))
        self.assertGreater(self.store.faults, 5)

    def test_allowed(self):
        """a loader opens only names below its roots"""
        refused = "is not below a --root of this loader"
        name = "tar:s3://data/sets/train-000.tar"
        before = self.store.count
        for roots in ((), ("--root", self.folder), ("--root", "s3://data/set"), ("--root", "s3://data/sets/train"),
                      ("--root", "https://data/sets")):
            loader = self.start_loader(*roots)
            self.assertIn(refused, self.feed(name, loader), roots)
            self.assertIn(refused, self.feed("tar:s3://data/sets/*.tar", loader), roots)
            self.assertIn(refused, self.feed("tar:s3://other/x.tar", loader), roots)
            self.assertIn(refused, self.feed("tar:http://169.254.169.254/latest/x.tar", loader), roots)
            self.doCleanups()
        self.assertEqual(self.store.count, before)
        self.store.signed = False
        self.store.routes["/go/x.tar"] = lambda r: r.send(302, headers={"Location": "/data/sets/train-000.tar"})
        loader = self.start_loader("--root", f"{self.store.url}/go/")
        self.assertRegex(self.feed(f"tar:{self.store.url}/go/x.tar", loader), f"redirects to .*{refused}")

        self.doCleanups()
        self.store.put_folder("/data/lists", self.images)
        loader = self.start_loader("--root", "s3://data/lists")
        self.write_list("train.csv", [*self.rows(), "s3://data/sets/train-000.tar,0,x"])
        self.env["AWS_NO_SIGN_REQUEST"] = "1"
        self.assertRegex(self.feed("list:s3://data/lists/train.csv", loader),
                         f"s3://data/sets/train-000.tar {refused}")

    def test_fetch_memory(self):
        """samples that are requested in advance fit into --fetch-memory"""
        name = "tar:s3://data/sets/train-000.tar"
        want = self.ctl_hash(os.path.join(self.shards, "train-000.tar"), os.environ)
        mean = len(self.store.objects["/data/sets/train-000.tar"]) // 40
        loader = self.start_loader("--root", "s3://data/sets", "--fetch-memory", str(4 * mean), "--io-threads", "2")
        self.assertIn(want, self.feed(name, loader))  # it has an index now
        self.store.latency, self.store.most_in_flight = 0.01, 0
        self.assertIn(want, self.feed(name, loader))
        self.assertLessEqual(self.store.most_in_flight, 4 * 3 + 2)  # samples are not all as large as the mean

    def test_plan_memory(self):
        """a plan with sets in a store counts and shares the memory for fetching like a data set there"""
        plan = "set a 1 tar:s3://data/sets/train-000.tar\nset b 1 tar:s3://data/sets/train-001.tar\nlabels stack\n"
        loader = self.start_loader("--root", "s3://data/sets", "--memory-budget", "500M", "--fetch-memory", "8G")
        for name in ("tar:s3://data/sets/train-000.tar", plan):
            self.assertIn("reading its samples takes up to 8", self.feed(name, loader), name)

    @unittest.skipIf(os.environ.get("PLENUM_SANITIZED"), "a sanitized library cannot be loaded into an ordinary Python")
    def test_moved(self):
        """after a seek, samples requested in advance give up their memory to those that the stream needs now"""
        if not tap.find("numpy"):
            self.skipTest("NumPy is not installed")
        sys.path.insert(0, os.path.join(SOURCE, "python"))
        import pyplenum
        mean = len(self.store.objects["/data/sets/train-000.tar"]) // 40
        loader = self.start_loader("--root", "s3://data/sets", "--fetch-memory", str(16 * mean), "--io-threads", "2")
        self.assertIn(self.local, self.feed("tar:s3://data/sets", loader))  # it has an index now
        self.store.latency = 0.02
        with pyplenum.Stream("tar:s3://data/sets", PIPELINE, micro_batch=4, shuffle="block:10", prefetch_depth=2,
                             loader=loader) as stream:
            for move in range(8):
                stream.seek_to(100 * move)
                self.store.most_in_flight = 0
                for _ in range(5):
                    next(stream)
                self.assertGreater(self.store.most_in_flight, 2, f"after {move} moves")  # more than reading threads

    def test_hub(self):
        """files on the Hugging Face Hub, which redirects, give the hash of the files"""
        self.store.signed = False
        self.env["HF_ENDPOINT"], self.env["HF_TOKEN"] = self.store.url + "/", "planted-token"
        for name in os.listdir(self.shards):
            self.store.put(f"/cdn/{name}", self.store.objects[f"/data/sets/{name}"])
            self.store.routes[f"/datasets/o/n/resolve/main/a b/{name}"] = \
                lambda r, name=name: r.send(302, headers={"Location": f"/cdn/{name}?signature=1"})
        name = "hf://datasets/o/n/a b/train-{000..002}.tar"
        self.assertEqual(self.hash(name), self.local)
        self.assertEqual(self.hash(f"tar:{name}"), self.local)
        loader = self.start_loader("--root", "hf://datasets/o/n")
        self.assertRegex(self.feed(name, loader), "redirects to .*/cdn/train-00..tar, which is not below a --root")
        self.doCleanups()
        loader = self.start_loader("--root", "hf://datasets/o/n", "--root", f"{self.store.url}/cdn")
        self.assertIn(self.local, self.feed(name, loader))
        self.assertIn("not below a --root", self.feed("hf://datasets/o/other/a b/train-000.tar", loader))
        self.assertIn("have the form", self.hash("tar:hf://models/o/n/x.tar"))

    def test_plan_command(self):
        """plenumctl plan prints how much an epoch fetches"""
        for shuffle, least, most in (("global", 120, 120), ("none", 1, 20), ("block:4", 30, 30)):
            got = run(CTL, "plan", "tar:s3://data/sets", "-p", PIPELINE, "-m", "10", "--micro-batch-time", "1s", "-r",
                      "2", "--shuffle", shuffle, "--json", env=self.env)
            self.assertEqual(got.returncode, 0, got.stderr)
            plan = json.loads(got.stdout)
            store, row = plan["store"], plan["rows"][0]
            self.assertEqual(store["samples"], 120)
            self.assertTrue(least <= store["requests"] <= most, store)
            self.assertGreater(store["request_us"], 0)
            self.assertEqual(row["epoch_seconds"], 6)
            self.assertAlmostEqual(row["megabits_per_second"], store["bytes"] / 120 * 20 * 8 / 1e6, delta=0.1)
        local = run(CTL, "plan", f"tar:{self.shards}", "-p", PIPELINE, "-m", "10", "--micro-batch-time", "1s", "--json",
                    env=self.env)
        self.assertNotIn("store", json.loads(local.stdout))

    def test_hedge(self):
        """a request that is late is sent again"""
        lock, again, released = threading.Lock(), {}, []

        def hold(request, path):
            wanted = request.headers.get("Range")
            if not wanted:
                return False
            with lock:
                if wanted in again:
                    released.append(wanted)
                    again[wanted].set()
                    return False
                if self.store.count < 1000 or len(again) == 10:
                    return False
                event = again[wanted] = threading.Event()
            event.wait(5)  # unless the same range is requested again
            return False

        self.store.fault = hold
        got = run(READER, "s3://data/sets/train-000.tar", os.path.join(self.shards, "train-000.tar"), "4000", "3",
                  "2000", env=self.env)
        failed, _, _, _ = (int(n) for n in got.stdout.split())
        self.assertEqual(failed, 0, got.stdout)
        self.assertGreater(len(released), 0)

    def test_tls(self):
        """certificates are verified, against the authorities that a variable names"""
        if not shutil.which("openssl"):
            self.skipTest("openssl is not installed")
        key, certificate = (os.path.join(self.folder, n) for n in ("key.pem", "certificate.pem"))
        made = run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-subj", "/CN=localhost",
                   "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out", certificate)
        self.assertEqual(made.returncode, 0, made.stderr)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self.store.close()
        self.store = store_server.Store(context, host="localhost")
        self.store.put_folder("/data/sets", self.shards)
        self.env["AWS_ENDPOINT_URL"] = self.store.url
        name = "tar:s3://data/sets/train-{000..002}.tar"
        self.assertIn("the server's certificate is not valid", self.hash(name))
        self.env["AWS_CA_BUNDLE"] = certificate
        self.assertEqual(self.hash(name), self.local)
        # The certificate does not name this address.
        self.env["AWS_ENDPOINT_URL"] = self.store.url.replace("localhost", "127.0.0.1")
        self.assertIn("the server's certificate is not valid", self.hash(name))
        self.store.signed = False
        self.assertEqual(self.hash(f"tar:{self.store.url}/data/sets/train-{{000..002}}.tar"), self.local)

    def test_proxy(self):
        """requests go through a proxy, which may be on this host"""
        self.env["http_proxy"] = self.store.url
        self.env["AWS_ENDPOINT_URL"] = "http://store.invalid:9000"
        self.assertEqual(self.hash("tar:s3://data/sets"), self.local)
        self.assertEqual(self.store.proxied, self.store.count)
        self.store.signed = False
        self.assertEqual(self.hash("tar:http://store.invalid/data/sets/train-{000..002}.tar"), self.local)

    def test_secrets(self):
        """no message contains a key"""
        self.env["AWS_SESSION_TOKEN"] = "planted-token"
        self.store.token = "other"
        for fault in (None, store_server.Faults(self.store, SEED, 1, ["garbage"])):
            self.store.fault = fault
            self.env["PLENUM_STORE_RETRY"] = "500ms"
            got = self.hash("tar:s3://data/sets/train-000.tar")
            self.assertNotEqual(got, self.local)
            self.assertFalse(re.search(f"planted|{store_server.SECRET}|Signature=", got), got)

    def test_addresses(self):
        """a name that resolves to this host is rejected"""
        name = socket.gethostname()
        try:
            here = socket.gethostbyname(name).startswith("127.")
        except OSError:
            here = False
        if not here:
            name = "ip6-localhost"
        url = f"http://{name}:{self.store.port}/data/sets/train-000.tar"
        self.env["PLENUM_STORE_RETRY"] = "1ms"
        got = self.hash(f"tar:{url}")
        if "resolve" in got:
            self.skipTest("no name of this host resolves to a loopback address")
        self.assertIn("its host resolves to a loopback or link-local address", got)
        self.assertEqual(self.store.count, 0)

    def test_join(self):
        """neighbours are fetched by one request"""
        self.assertEqual(self.hash("tar:s3://data/sets"), self.local)
        got = run(READER, "s3://data/sets/train-000.tar", os.path.join(self.shards, "train-000.tar"), "2000", "3",
                  "3000", env=self.env)
        failed, requests, ranges, _ = (int(n) for n in got.stdout.split())
        self.assertEqual(failed, 0, got.stdout)
        self.assertLess(requests, ranges)


if __name__ == "__main__":
    tap.main()
