# Not run: Spack itself. tests/package/recipes_test.py loads this file and holds its names, options and version against CMake's.
#
# There is no archive to download, so Spack builds a clone (docs/guides/installing.md):
#
#   spack repo create ~/dlrun-repo dlrun && spack repo add ~/dlrun-repo/spack_repo/dlrun
#   install -D deploy/spack/package.py ~/dlrun-repo/spack_repo/dlrun/packages/dlrun/package.py
#   spack dev-build -d . dlrun@0.2.0
from spack_repo.builtin.build_systems.cmake import CMakePackage, generator
from spack_repo.builtin.build_systems.cuda import CudaPackage

from spack.package import *


class Dlrun(CMakePackage, CudaPackage):
    """A launcher, collectives and a training library for distributed training."""

    has_code = True
    license("Apache-2.0")

    version("0.2.0")

    variant("training", default=True, description="Build tensors, the training library and the examples")
    variant("mpi", default=False, description="Build a module for the MPI, and dlrun-pmix")
    variant("nccl", default=True, when="+cuda", description="Build the NCCL module")
    variant("png", default=True, when="+training", description="Read PNG files")
    variant("jpeg", default=True, when="+training", description="Read JPEG files")
    conflicts("+cuda", when="~training", msg="CUDA is a part of the training library")

    generator("ninja")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("cmake@3.25:", type="build")
    # CMake's package of dlrun asks pkg-config for Highway.
    depends_on("pkgconfig", type=("build", "run"))

    depends_on("fmt")
    depends_on("spdlog")
    depends_on("openssl")
    depends_on("zlib-api")
    depends_on("boost@1.74:")
    depends_on("cli11")
    depends_on("nlohmann-json")
    depends_on("hwloc")
    depends_on("highway")
    # One copy of Protobuf and of Abseil in a process: DLRUN_STATIC_GRPC is for Debian's archives.
    depends_on("grpc+shared")
    depends_on("protobuf+shared")
    depends_on("abseil-cpp+shared")
    depends_on("onednn", when="+training")
    depends_on("utf8proc", when="+training")
    depends_on("libpng", when="+png")
    depends_on("jpeg", when="+jpeg")
    depends_on("mpi", when="+mpi")
    depends_on("pmix@4:", when="+mpi")
    depends_on("cuda", when="+cuda")
    depends_on("cudnn@9:", when="+cuda")
    depends_on("nccl", when="+nccl")
    depends_on("googletest", type="test")

    conflicts("%gcc@:11", msg="dlrun is C++20")

    def cmake_args(self):
        args = [
            self.define_from_variant("DLRUN_TRAINING", "training"),
            self.define_from_variant("DLRUN_MPI", "mpi"),
            self.define_from_variant("DLRUN_CUDA", "cuda"),
            self.define("DLRUN_NCCL", self.spec.satisfies("+nccl")),
            self.define("DLRUN_PNG", self.spec.satisfies("+png")),
            self.define("DLRUN_JPEG", self.spec.satisfies("+jpeg")),
            self.define("DLRUN_BUILD_TESTS", self.run_tests and self.spec.satisfies("+training")),
            self.define("DLRUN_STATIC_GRPC", False),
            # Spack has its own.
            self.define("DLRUN_CCACHE", False),
        ]
        if self.spec.satisfies("+cuda") and not self.spec.satisfies("cuda_arch=none"):
            args.append(self.define("DLRUN_CUDA_ARCHITECTURES", self.spec.variants["cuda_arch"].value))
        return args

    def check(self):
        """The unit tests, which take neither network nor GPU."""
        if self.spec.satisfies("+training"):
            with working_dir(self.build_directory):
                ctest("--output-on-failure", "-L", "unit")

    def test_launch(self):
        """Two ranks reduce over shared memory."""
        dlrun = which(self.prefix.bin.dlrun, required=True)
        dlrun("-n", "2", self.prefix.bin.dlbench, "all_reduce", "-b", "8", "-e", "1K", "-f", "128", "-n", "5")
