"""What every store, engine, door and filter must do: subclass a contract in a test module, and give it its fixtures.

    from transom_testing.contracts import DoorContract

    class TestMyDoor(DoorContract):
        routes = (("POST", "/my/echo"), ("GET", "/my/jobs/a"))

        @pytest.fixture
        def plugin(self) -> type:
            return MyPlugin

=================  ====================================  ==========================
contract           what it is given                      and may be given
=================  ====================================  ==========================
`StoreContract`    the fixture `store`
`EngineContract`   the fixture `plugin`                  the fixture `config`
`DoorContract`     the fixture `plugin`, and `routes`    the fixture `config`
`FilterContract`   the fixture `filter`, and `secrets`   `harmless`, `scope`, `held`
=================  ====================================  ==========================

`plugin` is a plugin class, or the name of an installed plugin; `config` is settings as the fixture `kernel` takes them.
"""

from .door_contract import DoorContract
from .engine_contract import EngineContract
from .filter_contract import FilterContract
from .store_contract import StoreContract

__all__ = ["DoorContract", "EngineContract", "FilterContract", "StoreContract"]
