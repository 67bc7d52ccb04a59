# SPDX-License-Identifier: MIT
"""The manifests of examples/kubernetes are valid for Kubernetes and Kubeflow, are consistent, and start programs with
arguments that these accept.

The schemas are those of the Python packages kubernetes (Debian: python3-kubernetes) and kubeflow_trainer_api (PyPI).
There is none for MPIJobs: this file lists their fields, taken from pkg/apis/kubeflow/v2beta1/types.go of
kubeflow/mpi-operator."""

import glob
import os
import re
import signal
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

try:
    import yaml
except ImportError:
    tap.skip_all("python3-yaml is missing")

FILES = sorted(glob.glob(os.path.join(SOURCE, "examples", "kubernetes", "*.yaml")))


class Unique(yaml.SafeLoader):
    """A loader of YAML for which a duplicate key is an error."""

    def construct_mapping(self, node, deep=False):
        keys = [self.construct_object(k) for k, _ in node.value]
        assert len(keys) == len(set(keys)), f"{node.start_mark}: {keys}"
        return super().construct_mapping(node, deep)


def load(name):
    with open(os.path.join(SOURCE, "examples", "kubernetes", name), encoding="utf-8") as f:
        return list(yaml.load_all(f, Unique))


def everything():
    return [(os.path.basename(path), each) for path in FILES for each in load(path)]


def find(where, key):
    """Yield all values of a key, at any depth."""
    if isinstance(where, dict):
        for k, v in where.items():
            if k == key:
                yield v
            yield from find(v, key)
    elif isinstance(where, list):
        for v in where:
            yield from find(v, key)


def pods(where):
    """Yield all pod templates."""
    if isinstance(where, dict):
        if "containers" in where:
            yield where
        for v in where.values():
            yield from pods(v)
    elif isinstance(where, list):
        for v in where:
            yield from pods(v)


class Models:
    """Checks values against the classes of the package kubernetes, which have the fields of each type."""

    def __init__(self, models):
        self.models = models

    def check(self, value, kind, where):
        if kind.startswith("list["):
            assert isinstance(value, list), f"{where} is not a list"
            for i, each in enumerate(value):
                self.check(each, kind[5:-1], f"{where}[{i}]")
        elif kind.startswith("dict("):
            assert isinstance(value, dict), f"{where} is not a map"
            for k, each in value.items():
                self.check(each, kind[5:-1].split(",", 1)[1].strip(), f"{where}.{k}")
        elif kind in ("str", "int", "bool"):
            assert isinstance(value, {"str": str, "int": int,
                                      "bool": bool}[kind]) and (kind == "bool") == isinstance(value, bool), \
                f"{where}: {value!r} is not a {kind}"
        elif hasattr(self.models, kind):
            model = getattr(self.models, kind)
            assert isinstance(value, dict), f"{where} is not a map"
            names = {wire: name for name, wire in model.attribute_map.items()}
            for k, each in value.items():
                assert k in names, f"{where}: {kind} has no field '{k}'"
                self.check(each, model.openapi_types[names[k]], f"{where}.{k}")
            try:
                model(**{names[k]: v for k, v in value.items()})
            except ValueError as e:
                raise AssertionError(f"{where}: {e}") from e


# The operator sets these variables in the launcher's environment, from pkg/controller/mpi_job_controller.go.
OPERATOR = {"K_MPI_JOB_ROLE": "launcher", "OMPI_MCA_orte_keep_fqdn_hostnames": "true",
            "OMPI_MCA_orte_default_hostfile": "/etc/mpi/hostfile", "OMPI_MCA_plm_rsh_args": "-o ConnectionAttempts=10",
            "OMPI_MCA_orte_set_default_slots": "4", "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

# MPIJob, v2beta1: existing fields, and their contents.
MPI = {"": {"apiVersion", "kind", "metadata", "spec"},
       "spec": {"slotsPerWorker", "runPolicy", "mpiReplicaSpecs", "sshAuthMountPath", "launcherCreationPolicy",
                "mpiImplementation", "runLauncherAsWorker"},
       "spec.runPolicy": {"cleanPodPolicy", "ttlSecondsAfterFinished", "activeDeadlineSeconds", "backoffLimit",
                          "schedulingPolicy", "suspend", "managedBy"},
       "spec.mpiReplicaSpecs": {"Launcher", "Worker"},
       "replica": {"replicas", "template", "restartPolicy"}}


class KubernetesTest(unittest.TestCase):
    def test_kubernetes(self):
        """Kubernetes' own objects match its schema"""
        try:
            from kubernetes.client import models
        except ImportError:
            self.skipTest("python3-kubernetes is missing")
        kinds = {"DaemonSet": "V1DaemonSet", "Deployment": "V1Deployment", "Service": "V1Service",
                 "PodDisruptionBudget": "V1PodDisruptionBudget", "NetworkPolicy": "V1NetworkPolicy"}
        m, found = Models(models), set()
        for name, each in everything():
            if each["kind"] in kinds:
                m.check(each, kinds[each["kind"]], f"{name}: {each['kind']}")
                found.add(each["kind"])
            else:
                for pod in pods(each):
                    m.check(pod, "V1PodSpec", f"{name}: {each['kind']}")
        self.assertEqual(found, set(kinds))
        for wrong in ({"kind": "Service", "spec": {"port": []}},
                      {"kind": "Service", "spec": {"ports": [{"name": "x"}]}},
                      {"kind": "Service", "spec": {"clusterIP": 1}}):
            with self.assertRaises(AssertionError):  # the test must detect faults
                m.check(wrong, "V1Service", "wrong")

    def test_mpijob(self):
        """the MPIJob has the operator's fields, with valid values"""
        job, = load("job-mpi.yaml")
        self.assertEqual((job["apiVersion"], job["kind"]), ("kubeflow.org/v2beta1", "MPIJob"))
        spec = job["spec"]
        self.assertLessEqual(set(job), MPI[""])
        self.assertLessEqual(set(spec), MPI["spec"])
        self.assertLessEqual(set(spec["runPolicy"]), MPI["spec.runPolicy"])
        self.assertIn(spec["runPolicy"]["cleanPodPolicy"], ("Running", "All", "None"))
        self.assertIn(spec["mpiImplementation"], ("OpenMPI", "Intel", "MPICH"))
        self.assertEqual(set(spec["mpiReplicaSpecs"]), MPI["spec.mpiReplicaSpecs"])
        for role in spec["mpiReplicaSpecs"].values():
            self.assertEqual(set(role), MPI["replica"])
        args = spec["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]["args"]
        # Workers are ready, and their names resolve, when sshd listens at the port that the image's ssh connects to.
        self.assertEqual(spec["launcherCreationPolicy"], "WaitForWorkersReady")
        worker, = spec["mpiReplicaSpecs"]["Worker"]["template"]["spec"]["containers"]
        with open(os.path.join(SOURCE, "examples", "containers", "Containerfile.training"), encoding="utf-8") as f:
            ports = re.findall(r"'\s*Port (\d+)'", f.read())
        self.assertEqual(ports, [str(worker["readinessProbe"]["tcpSocket"]["port"])] * 2)
        slots = spec["slotsPerWorker"] * spec["mpiReplicaSpecs"]["Worker"]["replicas"]
        self.assertEqual(args[args.index("-n") + 1], str(slots), "there must be as many instances as slots")

    def test_trainer(self):
        """TrainingRuntime and TrainJob match the trainer's schema"""
        try:
            import kubeflow_trainer_api.models as models
        except ImportError:
            self.skipTest("kubeflow_trainer_api is missing")
        for each in load("job-torchrun.yaml"):
            model = getattr(models, f"TrainerV1alpha1{each['kind']}")
            known = model.from_dict(each).to_dict()  # a field that the model does not know is lost
            for key in ("apiVersion", "kind", "spec"):
                self.assertEqual(known[key], each[key])

    def test_together(self):
        """selectors, ports, probes, volumes and images fit together"""
        with open(os.path.join(SOURCE, "docs", "kubernetes.md"), encoding="utf-8") as f:
            page = f.read()
        for name, each in everything():
            self.assertIn(f"examples/kubernetes/{name}", page)
            for pod in pods(each):
                volumes = {v["name"] for v in pod.get("volumes", [])}
                self.assertIs(pod["securityContext"]["runAsNonRoot"], True)
                self.assertEqual(pod["securityContext"]["seccompProfile"], {"type": "RuntimeDefault"})
                for container in pod["containers"]:
                    self.assertIs(container["securityContext"]["allowPrivilegeEscalation"], False)
                    self.assertEqual(container["securityContext"]["capabilities"], {"drop": ["ALL"]})
                if list(find(pod, "secret")):  # the pod's group may read the secret; a volume of data keeps its owners
                    self.assertEqual(pod["securityContext"]["fsGroup"], pod["securityContext"]["runAsGroup"])
                    self.assertEqual(pod["securityContext"]["fsGroupChangePolicy"], "OnRootMismatch")
                for container in pod["containers"] + pod.get("initContainers", []):
                    self.assertIn(container["image"], ("plenum-loader", "plenum-training"))
                    self.assertLessEqual({v["name"] for v in container.get("volumeMounts", [])}, volumes)
                    ports = {p["name"] for p in container.get("ports", [])}
                    for probe in find(container, "httpGet"):
                        self.assertIn(probe["port"], ports)
                for secret in find(pod, "secretName"):
                    self.assertIn(f"secret generic {secret} ", page)
        # Both manifests may be applied in one namespace, so neither may select the other's pods.
        for name, app in (("loader-daemonset.yaml", "plenum-loader-node"), ("loader-service.yaml", "plenum-loader")):
            for each in load(name):
                for labels in find(each, "matchLabels"):
                    self.assertEqual(labels, {"app": app})
                for template in find(each, "template"):
                    self.assertEqual(template["metadata"]["labels"], {"app": app})
        service = load("loader-service.yaml")[0]
        # The string "None" makes the service's name resolve to the addresses of all loaders.
        self.assertEqual(service["spec"]["clusterIP"], "None")
        job = load("job-mpi.yaml")[0]
        launcher = job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"][0]["args"]
        self.assertIn(f"tcp:{service['metadata']['name']}:{service['spec']['ports'][0]['port']}", launcher)

    def test_policies(self):
        """a loader's ports are restricted: only Prometheus reaches the status page"""
        for name in ("loader-daemonset.yaml", "loader-service.yaml"):
            policy, = (each for each in load(name) if each["kind"] == "NetworkPolicy")
            pod, = (p for each in load(name) for p in pods(each))
            self.assertEqual(policy["spec"]["policyTypes"], ["Ingress"])
            ports = {p["name"] for c in pod["containers"] for p in c.get("ports", [])}
            named = {}
            for rule in policy["spec"]["ingress"]:
                for port in rule["ports"]:
                    named.setdefault(port["port"], []).append(rule.get("from"))
            self.assertEqual(set(named), ports, "each port must have a rule, and no other port")
            self.assertTrue(all(named["http"]), "the page must be open only to listed peers")

    def test_images(self):
        """programs started by the manifests are in the images, under their users"""
        for which, user, files in (("loader", 10001, ("plenumd",)), ("training", 1000, ("plenum*", "job_sshd.conf"))):
            with open(os.path.join(SOURCE, "examples", "containers", f"Containerfile.{which}"), encoding="utf-8") as f:
                text = f.read()
            self.assertRegex(text, rf"(?m)^USER {user}:{user}$")
            for file in files:
                self.assertIn(file, text)
            users = {pod["securityContext"]["runAsUser"] for _, each in everything() for pod in pods(each)
                     if any(c["image"] == f"plenum-{which}" for c in pod["containers"])}
            self.assertEqual(users, {user})

    def test_loader(self):
        """the loader of each manifest starts with its arguments, is ready, and drains within its time at SIGTERM"""
        for name in ("loader-daemonset.yaml", "loader-service.yaml"):
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                pod, = (p for each in load(name) for p in pods(each))
                container, = pod["containers"]
                key = os.path.join(folder, "key")
                with open(os.open(key, os.O_WRONLY | os.O_CREAT, 0o400), "wb") as f:
                    f.write(os.urandom(32))
                # Use ports and paths that are free here; everything else is as in the manifest.
                here = {"--root": folder, "--tls-key": key, "--listen": "127.0.0.1:0", "--http-address": "127.0.0.1"}
                args = [a if a.split("=")[0] not in here else f"{a.split('=')[0]}={here[a.split('=')[0]]}"
                        for a in container["args"]]
                port = 20000 + os.getpid() % 20000
                self.assertIn("--http-port=9714", args)
                args[args.index("--http-port=9714")] = f"--http-port={port}"
                drain, = (int(re.fullmatch(r"--drain-timeout=(\d+)s", a).group(1)) for a in args
                          if a.startswith("--drain-timeout"))
                self.assertLess(drain + 5, pod["terminationGracePeriodSeconds"])
                loader = subprocess.Popen([f"{BUILD}/plenumd", "--socket", f"unix:{folder}/sock", *args],
                                          stderr=subprocess.PIPE, text=True)
                try:
                    # The kubelet probes the first path repeatedly, until the loader is ready.
                    path = container["startupProbe"]["httpGet"]["path"]
                    for _ in range(600):
                        if self.answer(loader, port, path) != 503:
                            break
                        time.sleep(0.1)
                    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                        self.assertEqual(self.answer(loader, port, container[probe]["httpGet"]["path"]), 200, probe)
                    self.assertEqual(subprocess.run([f"{BUILD}/plenumctl", "status", f"unix:{folder}/sock"],
                                                    stdout=subprocess.DEVNULL).returncode, 0)
                    loader.send_signal(signal.SIGTERM)
                    self.assertEqual(loader.wait(60), 0)
                finally:
                    loader.kill()
                    loader.communicate()

    def answer(self, loader, port, path):
        for _ in range(600):
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=300) as reply:
                    return reply.status
            except urllib.error.HTTPError as e:
                return e.code
            except OSError:
                self.assertIsNone(loader.poll(), "the loader has ended")
                time.sleep(0.1)
        self.fail("the loader is not answering")

    def test_options(self):
        """plenumrun takes the arguments of the MPIJob"""
        job, = load("job-mpi.yaml")
        container, = job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"]
        self.assertEqual(container["command"], ["plenumrun"])
        with tempfile.TemporaryDirectory() as folder:
            hosts = os.path.join(folder, "hostfile")  # as the operator writes it
            with open(hosts, "w", encoding="utf-8") as f:
                f.write("training-worker-0.training.default.svc slots=4\ntraining-worker-1.training.default.svc "
                        "slots=4\n")
            args = [hosts if a == "/etc/mpi/hostfile" else a for a in container["args"]]
            self.assertIn(hosts, args)
            done = subprocess.run([f"{BUILD}/plenumrun", "--allow-run-as-root", "--dry-run", *args],
                                  capture_output=True, text=True, env={**os.environ, **{name: value.replace(
                                      "/etc/mpi/hostfile", hosts) for name, value in OPERATOR.items()}})
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("training-worker-1.training.default.svc", done.stdout)


if __name__ == "__main__":
    tap.main()
