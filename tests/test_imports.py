"""What imports what: every public name resolves, and Days 14 and 15 need no torch."""

import subprocess
import sys

import pytest

import nanoserve


def test_every_public_name_resolves():
    for name in nanoserve.__all__:
        assert getattr(nanoserve, name) is not None
        assert name in dir(nanoserve)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'BlockAlocator'"):
        nanoserve.BlockAlocator  # noqa: B018
    with pytest.raises(ImportError):
        from nanoserve import BlockAlocator  # noqa: F401


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)


def test_the_allocator_and_the_table_work_where_nothing_but_the_standard_library_imports():
    result = run(
        "import sys\n"
        "class Wall:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        root = name.partition('.')[0]\n"
        "        if root != 'nanoserve' and root not in sys.stdlib_module_names:\n"
        "            raise ImportError(f'{name} is out of reach')\n"
        "sys.meta_path.insert(0, Wall())\n"
        "from nanoserve import BlockAllocator, BlockTable, KVCacheExhausted\n"
        "table = BlockTable(BlockAllocator(2, 4))\n"
        "table.append(5)\n"
        "print(table.slot(4))\n"
        "try:\n"
        "    import nanoserve.cache\n"
        "except ImportError as error:\n"
        "    print(error)\n"
    )
    assert result.stdout.split("\n")[:2] == ["4", "torch is out of reach"], result.stderr


@pytest.mark.parametrize("module", ["cache", "model", "sampling", "generation", "text"])
def test_the_engine_imports_without_transformers(module):
    result = run(f"import sys, nanoserve.{module}; print('transformers' in sys.modules)")
    assert result.stdout == "False\n", result.stderr
