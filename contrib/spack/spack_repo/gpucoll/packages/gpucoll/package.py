"""gpucoll for Spack. contrib/README.md says how to use it."""

import os

from spack_repo.builtin.build_systems.autotools import AutotoolsPackage
from spack_repo.builtin.build_systems.cuda import CudaPackage

from spack.package import *

# Open MPI's releases, which do not install the internal headers that a component needs: their sources have them.
OPEN_MPI = {
    "4.1.5": "a640986bc257389dd379886fdae6264c8cfa56bc98b71ce3ae3dfbd8ce61dbe3",
    "4.1.6": "f740994485516deb63b5311af122c265179f5328a0d857a567b85db00b11e415",
    "4.1.7": "54a33cb7ad81ff0976f15a6cc8003c3922f0f3d8ceed14e1813ef3603f22cd34",
    "4.1.8": "466f68e3132a1dc02710cc2011fafced8336d98359fa2dae4dddcfd5719f12a9",
    "5.0.3": "990582f206b3ab32e938aa31bbf07c639368e4405dca196fabe7f0f76eeda90b",
    "5.0.4": "64526852cdd88b2d30e022087c16ab3e03806c451b10cd691d5c1ac887d8ef9d",
    "5.0.5": "6588d57c0a4bd299a24103f4e196051b29e8b55fbda49e11d5b3d32030a32776",
    "5.0.6": "bd4183fcbc43477c254799b429df1a6e576c042e74a2d2f8b37d537b2ff98157",
    "5.0.7": "119f2009936a403334d0df3c0d74d5595a32d99497f9b1d41e90019fee2fc2dd",
    "5.0.8": "53131e1a57e7270f645707f8b0b65ba56048f5b5ac3f68faabed3eb0d710e449",
    "5.0.9": "dfb72762531170847af3e4a0f21d77d7b23cf36f67ce7ce9033659273677d80b",
    "5.0.10": "0acecc4fc218e5debdbcb8a41d182c6b0f1d29393015ed763b2a91d5d7374cc6",
}


class Gpucoll(AutotoolsPackage, CudaPackage):
    """A component of Open MPI that runs MPI's collectives on GPU buffers with CUDA kernels and transports of its own.
    Load it and run programs as before; gpucoll_info shows what was found."""

    # What `make dist` makes, in the folder where spack is called, or in a mirror.
    manual_download = True
    url = f"file://{os.getcwd()}/gpucoll-0.1.0.tar.gz"

    version("0.1.0")

    variant("cuda", default=True, description="Kernels for NVIDIA GPUs")
    variant("ucx", default=True, description="Communicators of several hosts")

    depends_on("c", type="build")
    depends_on("cxx", type="build")
    depends_on("fortran", type="build")  # for Open MPI's configure
    depends_on("gmake", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("openmpi@4.1:5.0")
    depends_on("hwloc@2:")
    depends_on("ucx@1.13:", when="+ucx")
    depends_on("cuda@11.8:", when="+cuda")

    for release, checksum in OPEN_MPI.items():
        resource(
            name=f"openmpi-{release}",
            url=f"https://download.open-mpi.org/release/open-mpi/v{release[:3]}/openmpi-{release}.tar.bz2",
            sha256=checksum,
            when=f"^openmpi@{release}",
            destination="",
            placement="openmpi-source",
        )

    @property
    def openmpi_source(self):
        return join_path(self.stage.source_path, "openmpi-source")

    @property
    def has_development_headers(self):
        """An Open MPI of the site, named as an external package, may have them."""
        mpicc = Executable(self.spec["openmpi"].prefix.bin.mpicc)
        folders = mpicc("--showme:incdirs", output=str).split()
        return any(os.path.isfile(join_path(folder, "ompi", "mca", "coll", "coll.h")) for folder in folders)

    @run_before("configure")
    def configure_openmpi(self):
        """As the installed one was, so that the headers are those of its library."""
        if self.has_development_headers:
            return
        if not os.path.isdir(self.openmpi_source):
            raise InstallError(
                f"openmpi@{self.spec['openmpi'].version} has no internal headers, and its source is not known here: "
                "add it to OPEN_MPI in package.py, or use one configured with --with-devel-headers"
            )
        info = Executable(self.spec["openmpi"].prefix.bin.ompi_info)(output=str)
        options = next(
            line.split(":", 1)[1] for line in info.splitlines() if "Configure command line:" in line
        )
        with working_dir(self.openmpi_source):
            Executable("sh")("-c", f"./configure {options}")

    def configure_args(self):
        args = [f"--with-ompi={self.spec['openmpi'].prefix}", f"--with-hwloc={self.spec['hwloc'].prefix}"]
        if not self.has_development_headers:
            args.append(f"--with-ompi-src={self.openmpi_source}")
        args += self.with_or_without("ucx", activation_value="prefix")
        args += self.with_or_without("cuda", activation_value="prefix")
        if self.spec.satisfies("+cuda") and not self.spec.satisfies("cuda_arch=none"):
            args.append("--with-cuda-arch=" + ",".join(self.spec.variants["cuda_arch"].value))
        return args

    def setup_run_environment(self, env):
        # Open MPI looks in these directories, up to the first that does not exist: SYSTEM_DEFAULT holds its own components.
        env.set(
            "OMPI_MCA_mca_base_component_path",
            f"SYSTEM_DEFAULT:{join_path(self.prefix.lib, 'openmpi')}:USER_DEFAULT",
        )
        # Open MPI 5 hands that path on to PMIx, which cannot use it: an empty one of its own keeps it quiet.
        env.set("PMIX_MCA_mca_base_component_path", "")

    @property
    def sanity_check_is_file(self):
        return [
            join_path("bin", "gpucoll_info"),
            join_path("lib", "openmpi", "mca_coll_gpucoll.so"),
            "env.sh",
        ]
