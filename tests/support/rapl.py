"""A made-up tree of RAPL counters, and of the sockets of a machine's cores."""


def write(file, value):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{value}\n")


class Rapl:
    """Sockets under `root`, each with its cores, a counter of its own and one of its memory."""

    def __init__(self, root, sockets, range_uj=262_143_328_850, dram=True):
        self.root, self.dram = root, dram
        self.folder = root / "sys/class/powercap"
        for socket, cores in sockets.items():
            self._zone(f"intel-rapl:{socket}", f"package-{socket}", range_uj)
            self._zone(f"intel-rapl:{socket}:0", "core", range_uj)
            if dram:
                self._zone(f"intel-rapl:{socket}:1", "dram", range_uj)
            for core in cores:
                write(root / f"sys/devices/system/cpu/cpu{core}/topology/physical_package_id", socket)
        self._zone("intel-rapl:9", "psys", range_uj)
        self._zone("intel-rapl-mmio:0", "package-0", range_uj)

    def _zone(self, zone, name, range_uj):
        write(self.folder / zone / "name", name)
        write(self.folder / zone / "max_energy_range_uj", range_uj)
        write(self.folder / zone / "energy_uj", 1000)

    def file(self, zone):
        return self.folder / zone / "energy_uj"

    def set(self, zone, microjoules):
        self.file(zone).write_text(f"{microjoules}\n")
