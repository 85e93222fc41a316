from spirit_py.api import ChecksumArguments as ChecksumArguments
from spirit_py.api import CleanupArguments as CleanupArguments
from spirit_py.api import MigrationArguments as MigrationArguments
from spirit_py.api import RevertArguments as RevertArguments
from spirit_py.api import Running as Running
from spirit_py.api import StatusArguments as StatusArguments
from spirit_py.api import checksum_tables as checksum_tables
from spirit_py.api import cleanup as cleanup
from spirit_py.api import migrate as migrate
from spirit_py.api import migration_status as migration_status
from spirit_py.api import revert as revert
from spirit_py.api import start_migration as start_migration
from spirit_py.compare.report import CompareReport as CompareReport
from spirit_py.errors import DifferencesFound as DifferencesFound
from spirit_py.errors import Interrupted as Interrupted
from spirit_py.errors import MigrationFailure as MigrationFailure
from spirit_py.errors import OutcomeUnknown as OutcomeUnknown
from spirit_py.errors import Refusal as Refusal
from spirit_py.errors import SpiritError as SpiritError
from spirit_py.errors import Stopped as Stopped
from spirit_py.errors import UnfinishedWork as UnfinishedWork
from spirit_py.errors import UsageFault as UsageFault
from spirit_py.events import Event as Event
from spirit_py.events import EventName as EventName
from spirit_py.status.report import MigrationReport as MigrationReport
from spirit_py.status.snapshot import MigrationStatus as MigrationStatus

__version__: str
