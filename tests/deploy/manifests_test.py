#!/usr/bin/env python3
"""manifests_test.py DLRUN SOURCE [CRD.yaml...]: the manifests of deploy/kubernetes agree with dlrun.

Each is YAML, and the dlrun of this build takes each container's line with its variables (--dry-run). Exit codes of policies are those of
`dlrun --help`, and pods give dlrun the time that it needs to end. Liveness probes succeed while dlrun runs, and fail when it is stopped or
has ended. With CRDs (JobSet's jobset.x-k8s.io_jobsets.yaml, Kubeflow Trainer's
trainer.kubeflow.org_*.yaml), by hand, each object is also held against its schema; a Job against JobSet's.
"""
import os
import pathlib
import re
import signal
import subprocess
import sys

try:
    import yaml
except ImportError:
    print("skipped: no python3-yaml, which mkdocs brings")
    sys.exit(1 if "DLRUN_TEST_ALL" in os.environ else 77)

bad = []


def containers(node, path=""):
    """Every pod's spec, and the container in it that runs dlrun."""
    if isinstance(node, dict):
        if "containers" in node:
            yield path, node
        for key, value in node.items():
            yield from containers(value, f"{path}.{key}")
    elif isinstance(node, list):
        for number, value in enumerate(node):
            yield from containers(value, f"{path}[{number}]")


def find(node, key):
    if isinstance(node, dict):
        for name, value in node.items():
            if name == key:
                yield value
            yield from find(value, key)
    elif isinstance(node, list):
        for value in node:
            yield from find(value, key)


def check_schema(schema, value, path):
    """What this file's objects can do wrong: an unknown field, a missing one, another type, a word that is none of the list."""
    if schema.get("x-kubernetes-int-or-string"):
        kinds = (int, str)
    else:
        kinds = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool, "number": (int, float)}.get(schema.get("type"), object)
    if not isinstance(value, kinds):
        bad.append(f"{path}: {value!r} is no {schema.get('type')}")
    elif isinstance(value, dict):
        known = schema.get("properties")
        rest = schema.get("additionalProperties")
        for name, part in value.items():
            if known and name in known:
                check_schema(known[name], part, f"{path}.{name}")
            elif isinstance(rest, dict):
                check_schema(rest, part, f"{path}.{name}")
            elif known and not rest and not schema.get("x-kubernetes-preserve-unknown-fields"):
                bad.append(f"{path}: no such field: {name}")
        bad.extend(f"{path}: {name} is missing" for name in schema.get("required", []) if name not in value)
    elif isinstance(value, list):
        for number, part in enumerate(value):
            check_schema(schema.get("items", {}), part, f"{path}[{number}]")
    elif "enum" in schema and value not in schema["enum"]:
        bad.append(f"{path}: {value} is none of {', '.join(map(str, schema['enum']))}")


def read_schemas(files):
    schemas = {}
    for file in files:
        crd = yaml.safe_load(pathlib.Path(file).read_text())
        for version in crd["spec"]["versions"]:
            schemas[f"{crd['spec']['group']}/{version['name']} {crd['spec']['names']['kind']}"] = version["schema"]["openAPIV3Schema"]
    for name, schema in list(schemas.items()):
        if name.endswith(" JobSet"):
            spec = schema["properties"]["spec"]["properties"]["replicatedJobs"]["items"]["properties"]["template"]["properties"]["spec"]
            schemas["batch/v1 Job"] = {"type": "object", "properties": {"apiVersion": {}, "kind": {}, "metadata": {}, "spec": spec}}
    return schemas


def dry_run(dlrun, where, words, entries, index):
    """`dlrun --dry-run` of a container's words, as pod `index`."""
    environment = {"PATH": f"{dlrun.parent}:{os.environ['PATH']}", "HOME": "/"}
    for entry in entries:
        environment[entry["name"]] = entry.get("value", str(index))
    result = subprocess.run([dlrun, "--dry-run", "--json", *words[1:]], env=environment, capture_output=True, text=True)
    if result.returncode != 0 or result.stderr:
        bad.append(f"{where}: dlrun ends with {result.returncode}: {result.stderr.strip()}")
        return {}
    return yaml.safe_load(result.stdout)


def checkpoints_in(words):
    return [words[n + 1] for n, word in enumerate(words[:-1]) if word == "--checkpoint"]


def check_object(dlrun, codes, where, thing, of_jobs):
    """`of_jobs`: the checkpoints of the TrainJobs, if the thing is their runtime."""
    for spec_path, pod in containers(thing):
        container = pod["containers"][0]
        entries = container.get("env", [])
        words = container.get("command", ["dlrun", "true"])
        if words[0] != "dlrun":
            bad.append(f"{where}{spec_path}: process 1 is {words[0]}, wanted dlrun")
        if "command" in container:
            plan = dry_run(dlrun, where, words, entries, 1)
            jobs = [n for n in find(thing, "completions")]
            if plan and plan.get("nnodes", jobs[0]) != jobs[0]:
                bad.append(f"{where}: {jobs[0]} pods, and dlrun expects {plan['nnodes']} nodes")
        grace = next((float(e["value"]) for e in entries if e["name"] == "PET_SHUTDOWN_TIMEOUT"), 10)
        preempt_wait = 25 if "--preempt" in words or "command" not in container else 0
        if grace + preempt_wait >= pod.get("terminationGracePeriodSeconds", 30):
            bad.append(f"{where}{spec_path}: the pod is killed after {pod.get('terminationGracePeriodSeconds', 30)} s, before dlrun has ended")
        for path in checkpoints_in(words) if "command" in container else of_jobs:
            mount = next((m["name"] for m in container["volumeMounts"] if path.startswith(m["mountPath"] + "/")), None)
            if mount in (None, "tmp"):
                bad.append(f"{where}{spec_path}: {path} is lost when the pod begins again: it is on {mount or 'no volume'}")
        if pod.get("restartPolicy") != "Never":
            bad.append(f"{where}{spec_path}: podFailurePolicy needs restartPolicy: Never")
    for policy in find(thing, "podFailurePolicy"):
        actions = {}
        for rule in policy["rules"]:
            for code in rule.get("onExitCodes", {}).get("values", []):
                actions[code] = rule["action"]
        if actions != {2: "FailJob", 126: "FailJob", 127: "FailJob", 75: "Ignore"}:
            bad.append(f"{where}: exit codes do {actions}")
        bad.extend(f"{where}: dlrun has no exit code {code}" for code in actions if code not in codes)
    if thing["kind"] == "TrainJob":
        kubeflow = {"PET_NNODES": "2", "PET_NPROC_PER_NODE": "2", "PET_NODE_RANK": "1", "PET_MASTER_ADDR": "train-node-0-0.train",
                    "PET_MASTER_PORT": "29400", "DLRUN_KEY_FILE": "/etc/dlrun/key"}
        dry_run(dlrun, where, thing["spec"]["trainer"]["command"], [{"name": n, "value": v} for n, v in kubeflow.items()], 1)


def check_probe(dlrun, where, command):
    """A liveness probe's command, with a dlrun in the place of process 1."""
    job = subprocess.Popen([dlrun, "cat"], stdin=subprocess.PIPE)

    def expect(code, state):
        got = subprocess.run([word.replace("/proc/1/", f"/proc/{job.pid}/") for word in command]).returncode
        if got != code:
            bad.append(f"{where}: the liveness probe ends with {got}, wanted {code}, if dlrun {state}")

    try:
        expect(0, "runs")
        job.send_signal(signal.SIGSTOP)
        os.waitpid(job.pid, os.WUNTRACED)
        expect(1, "is stopped")
        job.send_signal(signal.SIGCONT)
        job.send_signal(signal.SIGKILL)
        os.waitid(os.P_PID, job.pid, os.WEXITED | os.WNOWAIT)
        expect(1, "is a zombie")
    finally:
        job.kill()
        job.communicate()


def main():
    dlrun = pathlib.Path(sys.argv[1])
    folder = pathlib.Path(sys.argv[2]) / "deploy/kubernetes"
    schemas = read_schemas(sys.argv[3:])
    text = subprocess.run([dlrun, "--help"], capture_output=True, text=True, check=True).stdout
    codes = {int(code) for code in re.findall(r"\b\d+\b", text[text.index("Exit code:"):].split("\n\n")[0])}
    kinds = []
    for file in sorted(folder.glob("*.yaml")):
        things = list(yaml.safe_load_all(file.read_text()))
        of_jobs = [path for t in things if t["kind"] == "TrainJob" for path in checkpoints_in(t["spec"]["trainer"]["command"])]
        for thing in things:
            where = f"{file.name}, {thing['kind']}"
            kinds.append(thing["kind"])
            check_object(dlrun, codes, where, thing, of_jobs)
            for probe in find(thing, "livenessProbe"):
                check_probe(dlrun, where, probe["exec"]["command"])
            schema = schemas.get(f"{thing['apiVersion']} {thing['kind']}")
            if schema:
                check_schema(schema, thing, where)
            elif schemas and thing["kind"] != "Service":
                bad.append(f"{where}: no schema among those that are given")
    if sorted(kinds) != ["Job", "JobSet", "Service", "TrainJob", "TrainingRuntime"]:
        bad.append(f"the manifests have {sorted(kinds)}")
    print("\n".join(bad) or f"{len(kinds)} objects, {len(schemas)} schemas: as they should be")
    sys.exit(1 if bad else 0)


main()
