"""Teams: who works together; quotas, routines and waits may name one."""

from collections.abc import Callable

from transom_hookspecs import Call, Operation, Tx

from .checks import check_name, missing, page, taken
from .home import MEMBERS, Home
from .people import PeopleDesk
from .records import Person, Team, TeamMember
from .requests import AddTeamMember, CreateTeam, DeleteTeam, Done, ListTeams, RemoveTeamMember, TeamPage, TeamView
from .rows import operation


class TeamDesk:
    """The handlers of teams' operations."""

    def __init__(self, home: Home, people: PeopleDesk) -> None:
        self._home = home
        self._people = people

    def operations(self) -> list[Operation]:
        """Their rows of the table."""
        return [
            operation(CreateTeam, TeamView, self.create, "teams.manage", audit="team.create", command="team create"),
            operation(ListTeams, TeamPage, self.list, "people.read", command="team list"),
            operation(DeleteTeam, Done, self.delete, "teams.manage", audit="team.delete", command="team delete"),
            operation(AddTeamMember, Done, self.add, "teams.manage", audit="team.add", command="team add"),
            operation(RemoveTeamMember, Done, self.remove, "teams.manage", audit="team.remove", command="team remove"),
        ]

    async def create(self, call: Call, request: CreateTeam) -> TeamView:
        """Make a team."""
        name = check_name("name", request.name)

        def write(tx: Tx) -> TeamView:
            if not tx.insert(Team(name=name, created_at=tx.now)):
                raise taken("team", name)
            return TeamView(name=name)

        return await call.transact(write, object=name)

    async def list(self, call: Call, request: ListTeams) -> TeamPage:
        """The teams and who is in them."""
        tenant = call.origin.tenant
        teams, cursor = await page(self._home, tenant, Team, request)
        only = await self._people.only(call)
        views = []
        for team in teams:
            rows = await self._home.kernel.store.select(tenant, TeamMember, "team", {"team": team.name})
            views.append(TeamView(name=team.name, people=tuple(r.person for r in rows if only is None or r.person == only)))
        return TeamPage(teams=tuple(views), cursor=cursor)

    async def delete(self, call: Call, request: DeleteTeam) -> Done:
        """Delete a team."""

        def write(tx: Tx) -> Done:
            if not tx.delete(Team, request.name):
                raise missing("team", request.name)
            while members := tx.select(TeamMember, "team", {"team": request.name}):
                for member in members:
                    tx.delete(TeamMember, member.team, member.person)
            tx.touch(MEMBERS)
            return Done()

        return await self._write(call, write, request.name)

    async def add(self, call: Call, request: AddTeamMember) -> Done:
        """Put a person into a team."""

        def write(tx: Tx) -> Done:
            if tx.get(Team, request.team) is None:
                raise missing("team", request.team)
            if self._home.shown(tx.get(Person, request.person)) is None:
                raise missing("person", request.person)
            tx.touch(MEMBERS)
            return Done(changed=tx.insert(TeamMember(team=request.team, person=request.person)))

        return await self._write(call, write, f"{request.team}/{request.person}")

    async def remove(self, call: Call, request: RemoveTeamMember) -> Done:
        """Take a person out of a team."""

        def write(tx: Tx) -> Done:
            tx.touch(MEMBERS)
            return Done(changed=tx.delete(TeamMember, request.team, request.person))

        return await self._write(call, write, f"{request.team}/{request.person}")

    async def _write(self, call: Call, write: Callable[[Tx], Done], object: str) -> Done:
        done = await call.transact(write, object=object)
        self._home.changed()
        return done
