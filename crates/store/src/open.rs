//! Opening a ledger: one connection that writes, a few that read, the schema brought up to date.

use std::fs::{DirBuilder, OpenOptions};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use pipeline::scrub::Scrubber;
use sqlx::migrate::{MigrateError, Migrator};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{Connection, Sqlite, SqliteConnection, SqlitePool, Transaction};

use crate::clock::Clock;
use crate::error::StoreError;
use crate::limits::{BUSY_TIMEOUT_MS, LOCK_POLL_MS, OPEN_WAIT_MS, READERS_MAX};
use crate::lock::{LockFile, RunLock, beside, driver_of, lock_run, try_lock};
use crate::named::{Named, check_log, has_log};
use crate::tables::meta;
use crate::{AttemptId, Boundary, Result, RunId};

pub(crate) static MIGRATIONS: Migrator = sqlx::migrate!("../../migrations/sqlite");

type Migrating<'a> =
    Pin<Box<dyn Future<Output = std::result::Result<(), MigrateError>> + Send + 'a>>;

/// Called when attempt `seq` passes a boundary; what comes before it is on disk.
pub type BoundaryHook = Arc<dyn Fn(Boundary, u32) + Send + Sync>;

/// An open ledger; clones share its connections.
#[derive(Clone)]
pub struct Store {
    path: Arc<Path>,
    /// Exactly one connection, so that a process never waits for itself.
    writer: SqlitePool,
    readers: SqlitePool,
    clock: Clock,
    ledger_id: Arc<str>,
    scrubber: Arc<Scrubber>,
    hook: Option<BoundaryHook>,
    named: Named,
}

/// A write transaction with what every row needs.
pub(crate) struct Work {
    pub(crate) tx: Transaction<'static, Sqlite>,
    pub(crate) now_us: i64,
    pub(crate) origin: Arc<str>,
    pub(crate) scrubber: Arc<Scrubber>,
    clock: Clock,
    path: Arc<Path>,
}

impl Store {
    /// Opens the ledger at `path`, creates it and its folder where they are missing (readable by
    /// the owner only), and brings its schema up to date.
    ///
    /// # Errors
    /// A damaged, locked, read-only or newer ledger; a full disk.
    pub async fn open(path: &Path) -> Result<Self> {
        Self::open_with(path, Clock::system()).await
    }

    /// As [`Store::open`], with times and ids from `clock`.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub async fn open_with(path: &Path, clock: Clock) -> Result<Self> {
        refuse_special(path)?;
        create_private(path).map_err(|error| StoreError::of_io(&error, path))?;
        let opened = Self::open_created(path, clock).await;
        opened.map_err(|error| error.at(path))
    }

    /// The time now by this ledger's clock, in microseconds UTC.
    #[must_use]
    pub fn now_us(&self) -> i64 {
        self.clock.now_us()
    }

    async fn open_created(path: &Path, clock: Clock) -> Result<Self> {
        // Two processes that create the same ledger must not migrate it at the same time.
        let migrating = wait_for_lock(&beside(path, "open")).await?;
        let writer = writer_pool(path).await?;
        let ledger_id = {
            let mut connection = writer.acquire().await?;
            if !meta::is_known(&mut connection, newest_schema()).await? {
                meta::refuse_foreign(&mut connection).await?;
            }
            migrate(&mut connection).await.map_err(of_migration)?;
            let now_us = clock.now_us();
            let id = clock.new_id(now_us);
            meta::ensure(&mut connection, newest_schema(), &id, now_us).await?
        };
        drop(migrating);
        let readers = reader_pool(path, false).await?;
        let scrubber = Arc::default();
        let (path, named) = (path.into(), Named::of(path));
        Ok(Self { path, writer, readers, clock, ledger_id, scrubber, hook: None, named })
    }

    /// Opens an existing ledger only to read it, while a run may be writing it. Only the schema of
    /// an older one is brought up to date.
    ///
    /// # Errors
    /// An absent, unfinished, damaged or newer ledger, or an older one that may not be written.
    /// Every write through it is a `ReadOnly` error.
    pub async fn open_read_only(path: &Path) -> Result<Self> {
        std::fs::metadata(path).map_err(|error| StoreError::of_io(&error, path))?;
        refuse_special(path)?;
        let opened = match Self::open_existing(path, false).await {
            // Of a ledger that nobody writes and this process may not: without a log, nothing of it
            // can change meanwhile.
            Err(StoreError::ReadOnly { .. } | StoreError::CannotOpen { .. })
                if !may_write(path) && !has_log(path) =>
            {
                Self::open_existing(path, true).await
            }
            Err(StoreError::ReadOnly { .. }) => {
                undo_half_written(path).await.map_err(|error| error.at(path))?;
                Self::open_existing(path, false).await
            }
            // Beside a log, a reader too needs a file that it may write.
            Err(StoreError::CannotOpen { .. }) if !may_write(path) => {
                Err(StoreError::ReadOnly { ledger: String::new() })
            }
            opened => opened,
        };
        opened.map_err(|error| error.at(path))
    }

    async fn open_existing(path: &Path, still: bool) -> Result<Self> {
        let mut readers = reader_pool(path, still).await?;
        let mut connection = readers.acquire().await?;
        if !meta::is_known(&mut connection, newest_schema()).await? {
            meta::refuse_foreign(&mut connection).await?;
            return Err(StoreError::Unfinished { ledger: String::new() });
        }
        let ledger_id = meta::ledger_id(&mut connection).await?;
        let found = meta::schema(&mut connection).await?;
        drop(connection);
        if found < newest_schema() {
            // Who looked before knows other columns.
            readers.close().await;
            // What is read below is in tables that it may not have yet.
            Self::open(path)
                .await
                .map_err(|error| error.of_older(found, newest_schema()))?
                .close()
                .await;
            readers = reader_pool(path, false).await?;
        }
        Ok(Self {
            path: path.into(),
            writer: readers.clone(),
            readers,
            clock: Clock::system(),
            ledger_id,
            scrubber: Arc::default(),
            hook: None,
            named: Named::of(path),
        })
    }

    /// Has `hook` called at each boundary of an attempt.
    #[must_use]
    pub fn with_boundary_hook(mut self, hook: BoundaryHook) -> Self {
        self.hook = Some(hook);
        self
    }

    /// Has what comes from outside stored without what `scrubber` finds in it.
    #[must_use]
    pub fn with_scrubber(mut self, scrubber: Scrubber) -> Self {
        self.scrubber = Arc::new(scrubber);
        self
    }

    /// What keeps secrets out of this ledger; knows the forms of keys at least.
    #[must_use]
    pub fn scrubber(&self) -> &Scrubber {
        &self.scrubber
    }

    /// The file of the ledger.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The id that this ledger was created with.
    #[must_use]
    pub fn ledger_id(&self) -> &str {
        &self.ledger_id
    }

    /// Lets this process, and no other, drive `run` until the lock is dropped.
    ///
    /// # Errors
    /// `RunLocked` with the process that holds it.
    pub fn lock_run(&self, run: &RunId) -> Result<RunLock> {
        lock_run(&self.path, run)
    }

    /// The process that drives `run`, if one does; nobody is kept from driving it by the question.
    ///
    /// # Errors
    /// A lock file that cannot be read.
    pub fn driver_of(&self, run: &RunId) -> Result<Option<String>> {
        driver_of(&self.path, run)
    }

    /// Closes every connection, so that the write-ahead log is folded into the file.
    pub async fn close(&self) {
        self.readers.close().await;
        self.writer.close().await;
    }

    /// Checks the pages of the file, and that whatever a row belongs to is there.
    ///
    /// # Errors
    /// `Damaged` with the first finding.
    pub async fn check_file(&self) -> Result<()> {
        let mut connection = self.readers.acquire().await?;
        let at = |error: StoreError| error.at(&self.path);
        meta::check_pages(&mut connection).await.map_err(at)?;
        meta::check_owners(&mut connection).await.map_err(at)
    }

    /// Writes the ledger of this moment into one new file that only its owner may read. Nothing may
    /// be there, nor a log of another ledger beside it, which would be taken for this one's.
    ///
    /// # Errors
    /// Something that is there already, a folder that is not; a full disk.
    pub async fn copy_to(&self, path: &Path) -> Result<()> {
        let at = |error: StoreError| error.at(path);
        for beside in ["", "-wal", "-shm", "-journal"] {
            let mut name = path.as_os_str().to_owned();
            name.push(beside);
            if std::fs::symlink_metadata(&name).is_ok() {
                return Err(StoreError::Taken { path: Path::new(&name).display().to_string() });
            }
        }
        // A slip in a name must not make folders.
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
            return Err(StoreError::NoFolder { folder: folder.display().to_string() });
        }
        create_private(path).map_err(|error| StoreError::of_io(&error, path))?;
        let mut connection = self.readers.acquire().await?;
        let copied = sqlx::query("VACUUM INTO $1")
            .bind(path.display().to_string())
            .execute(&mut *connection)
            .await;
        if let Err(error) = copied {
            // Half of a ledger is none.
            let _ = std::fs::remove_file(path);
            return Err(at(error.into()));
        }
        Ok(())
    }

    /// Begins a write; the lock is taken now, so that what is read inside cannot change.
    pub(crate) async fn write(&self) -> Result<Work> {
        self.named.check(&self.path)?;
        let mut begun = self.writer.begin_with("BEGIN IMMEDIATE").await;
        if matches!(begun, Err(sqlx::Error::InvalidSavePointStatement)) {
            self.renew_writer().await?;
            begun = self.writer.begin_with("BEGIN IMMEDIATE").await;
        }
        let tx = begun.map_err(|error| StoreError::from(error).at(&self.path))?;
        check_log(&self.path)?;
        Ok(Work {
            tx,
            now_us: self.clock.now_us(),
            origin: self.ledger_id.clone(),
            scrubber: Arc::clone(&self.scrubber),
            clock: self.clock.clone(),
            path: self.path.clone(),
        })
    }

    /// Ends the connection that writes; the next write makes a new one. Where the disk is full,
    /// SQLite rolls back by itself, and sqlx goes on counting the transaction.
    async fn renew_writer(&self) -> Result<()> {
        let at = |error: sqlx::Error| StoreError::from(error).at(&self.path);
        self.writer.acquire().await.map_err(at)?.close().await.map_err(at)
    }

    /// Begins a read of one moment of the ledger.
    pub(crate) async fn read(&self) -> Result<Transaction<'static, Sqlite>> {
        self.named.check(&self.path)?;
        self.readers.begin().await.map_err(|error| StoreError::from(error).at(&self.path))
    }

    /// Tells the hook of a boundary that is no commit of this ledger.
    pub fn passed(&self, boundary: Boundary, seq: u32) {
        if let Some(hook) = &self.hook {
            hook(boundary, seq);
        }
    }

    /// Commits a step of an attempt and tells the hook.
    pub(crate) async fn commit_step(&self, work: Work, at: Boundary, seq: u32) -> Result<()> {
        work.commit().await?;
        self.passed(at, seq);
        Ok(())
    }

    #[cfg(test)]
    pub(crate) fn writer_pool(&self) -> &SqlitePool {
        &self.writer
    }
}

impl Work {
    pub(crate) async fn commit(self) -> Result<()> {
        self.tx.commit().await.map_err(|error| StoreError::from(error).at(&self.path))
    }

    pub(crate) fn new_id(&self) -> String {
        self.clock.new_id(self.now_us)
    }

    pub(crate) fn new_attempt_id(&self) -> AttemptId {
        AttemptId::from(self.new_id())
    }

    pub(crate) fn connection(&mut self) -> &mut SqliteConnection {
        &mut self.tx
    }
}

fn newest_schema() -> i64 {
    MIGRATIONS.iter().map(|migration| migration.version).max().unwrap_or(0)
}

/// Boxed: the compiler cannot see for every lifetime that the future of `run` is `Send`.
fn migrate(connection: &mut SqliteConnection) -> Migrating<'_> {
    Box::pin(MIGRATIONS.run_direct(None, connection, false))
}

fn of_migration(error: MigrateError) -> StoreError {
    match error {
        MigrateError::Execute(inner) | MigrateError::ExecuteMigration(inner, _) => inner.into(),
        MigrateError::VersionMismatch(version) | MigrateError::VersionMissing(version) => {
            StoreError::damaged(format!("its migration {version} is not this program's"))
        }
        other => StoreError::failed(other.to_string()),
    }
}

/// A pipe would be waited for, and a device has no pages.
fn refuse_special(path: &Path) -> Result<()> {
    match std::fs::metadata(path) {
        Ok(found) if !found.is_file() => Err(StoreError::CannotOpen {
            ledger: path.display().to_string(),
            why: "it is not a file".to_owned(),
        }),
        Ok(_) | Err(_) => Ok(()),
    }
}

/// False where a file, or its folder, is closed to writers.
fn may_write(path: &Path) -> bool {
    let folder = path.parent().and_then(|folder| folder.metadata().ok());
    let closed = folder.is_some_and(|folder| folder.permissions().readonly());
    !closed && OpenOptions::new().write(true).open(path).is_ok()
}

fn create_private(path: &Path) -> std::io::Result<()> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    // SQLite gives its -wal and -shm files the permissions of the main file.
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600).open(path).map(drop)
}

async fn wait_for_lock(path: &Path) -> Result<LockFile> {
    for _ in 0..OPEN_WAIT_MS / LOCK_POLL_MS {
        if let Ok(file) = try_lock(path)? {
            return Ok(file);
        }
        tokio::time::sleep(Duration::from_millis(LOCK_POLL_MS)).await;
    }
    Err(StoreError::Locked { ledger: String::new() })
}

fn connect_options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .busy_timeout(Duration::from_millis(BUSY_TIMEOUT_MS))
        .foreign_keys(true)
}

async fn writer_pool(path: &Path) -> Result<SqlitePool> {
    let options = connect_options(path)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full);
    let pool = SqlitePoolOptions::new().max_connections(1);
    let pool = pool.acquire_timeout(Duration::from_millis(3 * BUSY_TIMEOUT_MS));
    // Connected once by hand: the pool would retry a lasting failure until its timeout.
    sqlx::SqliteConnection::connect_with(&options).await?.close().await?;
    Ok(pool.connect_with(options).await?)
}

/// Rolls back what a dead process left half written; a connection that only reads may not.
async fn undo_half_written(path: &Path) -> Result<()> {
    let mut connection = SqliteConnection::connect_with(&connect_options(path)).await?;
    let query = "SELECT count(*) FROM sqlite_master";
    let _tables: i64 = sqlx::query_scalar(query).fetch_one(&mut connection).await?;
    Ok(connection.close().await?)
}

/// `still` where nobody writes the file.
async fn reader_pool(path: &Path, still: bool) -> Result<SqlitePool> {
    let options = connect_options(path).read_only(true).immutable(still);
    let pool = SqlitePoolOptions::new().max_connections(READERS_MAX);
    sqlx::SqliteConnection::connect_with(&options).await?.close().await?;
    Ok(pool.connect_with(options).await?)
}
