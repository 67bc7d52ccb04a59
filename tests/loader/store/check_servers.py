# SPDX-License-Identifier: MIT
"""make check-stores: data sets in real servers of S3 and HTTPS have the hash of the same files on disk.

The servers are in the virtual environment PLENUM_STORES (rclone, which checks signatures, moto, and hadro, which can be
slow and fail), and nginx, which is installed by the system.
"""

import os
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

SOURCE, BUILD = os.environ["top_srcdir"], os.environ["top_builddir"]
sys.path.insert(0, os.path.join(SOURCE, "tests", "python"))

import tap  # noqa: E402
from ports import free_port  # noqa: E402

CTL = os.path.join(BUILD, "plenumctl")
BIN = os.path.join(os.environ.get("PLENUM_STORES", ""), "bin")
LIMIT_S = 120

UPLOAD = """
import os, sys, boto3
s3 = boto3.client("s3", endpoint_url=sys.argv[1], region_name="us-east-1", aws_access_key_id="a",
                  aws_secret_access_key="b")
s3.create_bucket(Bucket="data")
for name in os.listdir(sys.argv[2]):
    s3.upload_file(os.path.join(sys.argv[2], name), "data", "a b+c/" + name)
"""

NGINX = """
daemon off; master_process off; pid {folder}/nginx.pid; error_log {folder}/error.log;
events {{}}
http {{
    access_log off; client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2; fastcgi_temp_path {folder}/t3;
    uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;
    server {{
        listen 127.0.0.1:{port} ssl; ssl_certificate {folder}/certificate.pem; ssl_certificate_key {folder}/key.pem;
        root {root};
    }}
}}
"""


class Servers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="plenum-servers-")
        cls.data = os.path.join(cls.folder, "root", "data")
        os.makedirs(cls.data)
        cls.env = dict(os.environ, PLENUM_CACHE_DIR=os.path.join(cls.folder, "cache"), AWS_REGION="us-east-1",
                       AWS_ACCESS_KEY_ID="key", AWS_SECRET_ACCESS_KEY="a-secret", HOME=cls.folder)
        subprocess.run([CTL, "make-sample", "-c", "4", "-n", "50", "--size", "120", cls.folder + "/images"], check=True,
                       env=cls.env, stdout=subprocess.DEVNULL)
        subprocess.run([CTL, "pack", cls.folder + "/images", cls.data, "-n", "40", "--prefix", "train"], check=True,
                       env=cls.env, stdout=subprocess.DEVNULL)
        cls.local = cls.hash(cls.data)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    @classmethod
    def hash(cls, name, **more):
        got = subprocess.run([CTL, "hash", name, "--pipeline", "rrc(32)"], env=dict(cls.env, **more), text=True,
                             capture_output=True)
        return got.stdout.strip() or got.stderr.strip()

    def serve(self, url, *command):
        """Start a server, and wait until it answers."""
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self.folder)
        self.addCleanup(server.wait)
        self.addCleanup(server.terminate)
        end = time.monotonic() + LIMIT_S
        while time.monotonic() < end and server.poll() is None:
            try:
                urllib.request.urlopen(url, timeout=5, context=ssl._create_unverified_context()).close()
            except urllib.error.HTTPError:
                return
            except OSError:
                time.sleep(0.1)
            else:
                return
        self.fail(f"{command[0]} does not answer")

    def make_certificate(self):
        certificate, key = (os.path.join(self.folder, name) for name in ("certificate.pem", "key.pem"))
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-subj",
                        "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", key, "-out",
                        certificate], check=True, capture_output=True)
        return certificate, key

    def program(self, name):
        path = os.path.join(BIN, name)
        if not os.path.exists(path):
            self.skipTest(f"there is no {name} in PLENUM_STORES")
        return path

    def test_rclone(self):
        """rclone serve s3, which checks signatures"""
        port = free_port()
        url = f"http://127.0.0.1:{port}"
        self.serve(url, self.program("rclone"), "serve", "s3", "--auth-key", "key,a-secret", "--addr",
                   f"127.0.0.1:{port}", os.path.join(self.folder, "root"))
        for name in ("tar:s3://data", "s3://data/train-*.tar", "s3://data/train-{000000..000004}.tar"):
            self.assertEqual(self.hash(name, AWS_ENDPOINT_URL=url), self.local, name)
        self.assertIn("403", self.hash("s3://data/train-000000.tar", AWS_ENDPOINT_URL=url, AWS_SECRET_ACCESS_KEY="x"))

    def test_hadro(self):
        """hadro over HTTPS, with latency, little bandwidth, and 503 for a fifth of all requests"""
        certificate, key = self.make_certificate()
        port = free_port()
        url = f"https://localhost:{port}"
        self.serve(url, self.program("hadro"), "--host", "127.0.0.1", "--port", str(port), "--access-key", "key",
                   "--secret-key", "a-secret", "--region", "us-east-1", "--tls-cert", certificate, "--tls-key", key,
                   "--latency-ms", "5", "--latency-jitter-ms", "20", "--bandwidth-mbps", "50", "--error-rate", "0.2",
                   "--fault-seed", "7", os.path.join(self.folder, "root"))
        known = {"AWS_ENDPOINT_URL": url, "AWS_CA_BUNDLE": certificate}
        for name in ("tar:s3://data", "s3://data/train-*.tar", "s3://data/train-{000000..000004}.tar"):
            self.assertEqual(self.hash(name, **known), self.local, name)
        known["AWS_SECRET_ACCESS_KEY"] = "x"
        self.assertIn("SignatureDoesNotMatch", self.hash("s3://data/train-000000.tar", **known))

    def test_moto(self):
        """moto, with a space and a plus in keys"""
        port = free_port()
        url = f"http://127.0.0.1:{port}"
        self.serve(url, self.program("moto_server"), "-H", "127.0.0.1", "-p", str(port))
        subprocess.run([self.program("python"), "-c", UPLOAD, url, self.data], check=True)
        for name in ("tar:s3://data/a b+c", "s3://data/a b+c/train-*.tar",
                     "s3://data/a b+c/train-{000000..000004}.tar"):
            self.assertEqual(self.hash(name, AWS_ENDPOINT_URL=url), self.local, name)

    def test_nginx(self):
        """nginx over HTTPS"""
        nginx = shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin")
        if not nginx:
            self.skipTest("nginx is not installed")
        port = free_port()
        certificate, _ = self.make_certificate()
        with open(os.path.join(self.folder, "nginx.conf"), "w", encoding="utf-8") as f:
            f.write(NGINX.format(folder=self.folder, port=port, root=os.path.join(self.folder, "root")))
        os.chmod(self.folder, 0o755)
        url = f"https://localhost:{port}"
        self.serve(url, nginx, "-p", self.folder, "-c", os.path.join(self.folder, "nginx.conf"))
        name = f"{url}/data/train-{{000000..000004}}.tar"
        self.assertEqual(self.hash(name, AWS_CA_BUNDLE=certificate), self.local)
        self.assertIn("certificate is not valid", self.hash(name))


if __name__ == "__main__":
    tap.main()
