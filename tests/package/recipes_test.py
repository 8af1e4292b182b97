#!/usr/bin/env python3
"""recipes_test.py SOURCE: the recipes of Spack and conda (deploy/) have CMake's version, options and dependencies.

package.py is loaded with stand-ins for Spack's names. recipe.yaml is read as lines: a list's items, and the `then` of an `if`.
"""
import pathlib
import re
import sys
import types

# What CMake looks for, and the packages of Spack and of conda-forge that have it.
PACKAGES = {
    "PkgConfig": (["pkgconfig"], ["pkg-config"]),
    "Threads": ([], []),
    "OpenMP": ([], []),
    "fmt": (["fmt"], ["fmt"]),
    "spdlog": (["spdlog"], ["spdlog"]),
    "OpenSSL": (["openssl"], ["openssl"]),
    "ZLIB": (["zlib-api"], ["zlib"]),
    "Boost": (["boost"], ["libboost-headers"]),
    "CLI11": (["cli11"], ["cli11"]),
    "nlohmann_json": (["nlohmann-json"], ["nlohmann_json"]),
    "hwloc.h": (["hwloc"], ["libhwloc"]),
    "Protobuf": (["protobuf"], ["libprotobuf"]),
    "gRPC": (["grpc", "abseil-cpp"], ["libgrpc", "libabseil"]),
    "libhwy": (["highway"], ["libhwy"]),
    "OneDNN": (["onednn"], ["onednn"]),
    "libutf8proc": (["utf8proc"], ["libutf8proc"]),
    "PNG": (["libpng"], ["libpng"]),
    "libjpeg": (["jpeg"], ["libjpeg-turbo"]),
    "GTest": (["googletest"], []),  # conda's build has no tests
    "ompi": (["mpi"], ["openmpi"]),
    "mpich": (["mpi"], ["mpich"]),
    "pmix": (["pmix"], ["libpmix-devel"]),
    "nvcc": (["cuda"], ["cuda-cudart-dev"]),
    "cublasLt": (["cuda"], ["libcublas-dev"]),
    "cudnn.h": (["cudnn"], ["cudnn"]),
    "nccl.h": (["nccl"], ["nccl"]),
}
TOOLS = {"c", "cxx", "cmake", "ninja"}
# Options that change no file of an installation, and those of developers.
DEVELOPERS = {"DLRUN_BUILD_FUZZERS", "DLRUN_PRECOMPILE", "DLRUN_SANITIZE", "DLRUN_WERROR"}
# A choice that only one of them offers.
ONE_ONLY = {"spack": set(), "conda": {"DLRUN_CUDA_ARCHITECTURES"}}

bad = []


def compare(what, got, wanted):
    bad.extend(f"{what}: {name} is missing" for name in sorted(wanted - got))
    bad.extend(f"{what}: CMake has no {name}" for name in sorted(got - wanted))


def read_cmake(source):
    """The version, the options, and what is looked for."""
    text = "\n".join(re.sub(r"(?m)^\s*#.*$", "", file.read_text()) for file in sorted((source / "cmake").glob("*.cmake")) if not file.name.startswith("Find"))
    options = set(re.findall(r"(?:\boption|dl_auto_option)\((DLRUN_\w+)", text)) | set(re.findall(r"set\((DLRUN_\w+) [^()]*?CACHE STRING", text))
    found = set(re.findall(r"find_package\((\w+)", text)) | set(re.findall(r"find_path\(\w+ (?:\S+/)?(\w+\.h)", text))
    found |= set(re.findall(r"find_program\(DLRUN_NVCC (\w+)", text)) | set(re.findall(r"find_library\(DLRUN_CUBLASLT_LIBRARY (\w+)", text))
    found |= {name for name in re.findall(r"pkg_check_modules\([^)]*?([\w$\{\}]+)(?:>=\d+)?\)", text) if not name.startswith("$")}
    found |= {package for package in re.findall(r'dl_find_mpi\(\w+ "[^"]*" (\w+)', text)}
    return re.search(r'kVersion = "(.*)"', (source / "core/base/version.h").read_text()).group(1), options, found


class Spec:
    """A spec of which +NAME holds for the names that are given."""

    def __init__(self, on):
        self.on = on
        self.variants = {"cuda_arch": types.SimpleNamespace(value=("90",))}

    def satisfies(self, text):
        return text[0] == "+" and text[1:] in self.on


def load_spack(file):
    """The class of package.py, and what its directives were called with."""
    calls = {name: [] for name in ("version", "variant", "depends_on", "conflicts", "license", "generator")}
    package = types.ModuleType("spack.package")
    for name, arguments in calls.items():
        setattr(package, name, lambda *words, _arguments=arguments, **named: _arguments.append((words, named)))
    cmake = types.ModuleType("cmake")
    cmake.generator = package.generator

    class CMakePackage:
        run_tests = True

        def define(self, name, value):
            return name, value

        def define_from_variant(self, name, variant):
            if variant not in names:
                bad.append(f"spack: {name} comes from {variant}, which is no variant")
            return name, variant in self.spec.on

    cmake.CMakePackage = CMakePackage
    cuda = types.ModuleType("cuda")
    cuda.CudaPackage = type("CudaPackage", (), {})
    for name in ("spack", "spack_repo", "spack_repo.builtin", "spack_repo.builtin.build_systems"):
        sys.modules[name] = types.ModuleType(name)
    sys.modules.update({"spack.package": package, "spack_repo.builtin.build_systems.cmake": cmake, "spack_repo.builtin.build_systems.cuda": cuda})
    scope = {}
    exec(compile(file.read_text(), str(file), "exec"), scope)
    names = {words[0] for words, _ in calls["variant"]} | {"cuda"}
    return scope["Dlrun"], calls, names


def check_spack(file, version, options, packages):
    recipe, calls, names = load_spack(file)
    compare("spack: version", {words[0] for words, _ in calls["version"]}, {version})
    compare("spack: version of the lines", set(re.findall(r"dlrun@([\d.]+)", file.read_text())), {version})
    compare("spack: package", {re.split(r"[@+~]", words[0])[0] for words, _ in calls["depends_on"]}, {name for spack, _ in packages for name in spack} | (TOOLS - {"ninja"}))
    for on in (set(), names):
        package = recipe()
        package.spec = Spec(on)
        passed = dict(package.cmake_args())
        compare("spack: option", set(passed), options if on else options - {"DLRUN_CUDA_ARCHITECTURES"})
        for name in ("TRAINING", "MPI", "CUDA", "NCCL", "PNG", "JPEG"):
            if passed.get(f"DLRUN_{name}") is not bool(on):
                bad.append(f"spack: DLRUN_{name} is {passed.get(f'DLRUN_{name}')} with {sorted(on)}")
    for words, named in calls["depends_on"] + calls["variant"]:
        for variant in re.findall(r"[+~](\w+)", named.get("when", "")):
            if variant not in names:
                bad.append(f"spack: {words[0]} depends on {variant}, which is no variant")


def check_conda(file, version, options, packages):
    text = file.read_text()
    compare("conda: version", set(re.findall(r'^  version: "(.*)"', text, re.M)), {version})
    compare("conda: option", set(re.findall(r"-D(DLRUN_\w+)=", text)), options)
    requirements = re.search(r"^requirements:\n((?:  .*\n)+)", text, re.M).group(1)
    named = set(re.findall(r"(?:- |then: )(\w[\w-]*)(?= |\n)", re.sub(r"- if: .*", "", requirements)))
    compare("conda: package", named, {name for _, conda in packages for name in conda} | (TOOLS - {"c", "cxx"}))


def main():
    source = pathlib.Path(sys.argv[1])
    version, options, found = read_cmake(source)
    compare("the table of packages", set(PACKAGES), found)
    packages = [PACKAGES[name] for name in sorted(found & set(PACKAGES))]
    check_spack(source / "deploy/spack/package.py", version, options - DEVELOPERS - ONE_ONLY["spack"], packages)
    check_conda(source / "deploy/conda/recipe.yaml", version, options - DEVELOPERS - ONE_ONLY["conda"], packages)
    print("\n".join(bad) or f"two recipes with {len(options)} options and {len(found)} packages: as they should be")
    sys.exit(1 if bad else 0)


main()
