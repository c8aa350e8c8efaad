"""A grid file is data: nothing in it is run."""

import pytest

from raybench.config import load_grid
from raybench.errors import GridFileError

EVIL = {
    "a tag": "name: g\nworkload: !!python/object/apply:os.system ['touch {proof}']\n",
    "a tag of a value": "name: g\nworkload: digits_cnn\nepochs: !!python/name:os.system\n",
    "a local tag": "name: g\nworkload: !include /etc/passwd\n",
    "a template": "name: g\nworkload: '{{{{ self.__init__.__globals__ }}}}'\n",
    "a format": "name: '{{0.__class__}}'\nworkload: digits_cnn\n",
    "a shell's word": "name: g\nworkload: '$(touch {proof})'\n",
    "a module": "name: g\nworkload: 'os:system'\n",
    "an environment": "name: g\nworkload: digits_cnn\ndevices: {{cpu: {{kind: cpu, environment: 5}}}}\n",
}


@pytest.mark.parametrize("evil", EVIL.values(), ids=EVIL)
def test_a_grid_file_is_data(evil, tmp_path):
    from raybench.errors import UsageError
    from raybench.planning.node import probe_node
    from raybench.planning.plan import make_plan

    proof = tmp_path / "proof"
    (tmp_path / "g.yaml").write_text(evil.format(proof=proof))
    with pytest.raises((GridFileError, UsageError)) as told:
        make_plan(load_grid(tmp_path / "g.yaml"), [probe_node()], tmp_path)
    assert "Traceback" not in str(told.value)
    assert not proof.exists()
