//! Opening: durability settings, permissions, and every way a file can be wrong.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use pipeline::attempt::State;
use pipeline::digest::Digest;
use pipeline::verdict::{Reason, Verdict};
use sqlx::Connection;
use sqlx::migrate::Migrator;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode};

use super::fixtures::{Ledger, ask, open, start_run, task_hash};
use crate::lock::beside;
use crate::open::MIGRATIONS;
use crate::{DangerRow, Store, StoreError};

#[tokio::test]
async fn the_writer_is_durable() {
    let ledger = Ledger::new().await;
    let mut connection = ledger.store.writer_pool().acquire().await.unwrap();
    for (pragma, wanted) in [
        ("PRAGMA journal_mode", "wal"),
        ("PRAGMA synchronous", "2"),
        ("PRAGMA foreign_keys", "1"),
        ("PRAGMA busy_timeout", "10000"),
    ] {
        let row = sqlx::query(pragma).fetch_one(&mut *connection).await.unwrap();
        let found = sqlx::Row::try_get::<i64, _>(&row, 0)
            .map(|number| number.to_string())
            .or_else(|_| sqlx::Row::try_get::<String, _>(&row, 0));
        assert_eq!(found.unwrap(), wanted, "{pragma}");
    }
    assert_eq!(ledger.store.writer_pool().options().get_max_connections(), 1);
}

#[tokio::test]
async fn files_and_folder_are_private() {
    let ledger = Ledger::new().await;
    let _lock = ledger.store.lock_run(&ledger.run).unwrap();
    let folder = ledger.folder().join("sub");
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    let files: Vec<_> = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(files.len(), 4, "{files:?}");
    for file in files {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}

#[tokio::test]
async fn one_process_drives_a_run() {
    let ledger = Ledger::new().await;
    let other = ledger.another().await;
    let lock = ledger.store.lock_run(&ledger.run).unwrap();
    let error = other.lock_run(&ledger.run).unwrap_err();
    let pid = std::process::id().to_string();
    assert!(matches!(&error, StoreError::RunLocked { pid: held, .. } if *held == pid), "{error}");
    let second_run = start_run(&other).await;
    let _second = other.lock_run(&second_run).unwrap();
    drop(lock);
    let again = other.lock_run(&ledger.run).unwrap();
    assert!(ledger.store.lock_run(&ledger.run).is_err());
    drop(again);
    let left = ledger.folder().join("sub").read_dir().unwrap();
    let locks = left
        .filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().ends_with(".lock"));
    assert_eq!(locks.count(), 1);
}

#[tokio::test]
async fn a_newer_schema_is_refused_and_left_alone() {
    let ledger = Ledger::new().await;
    ledger.sql("UPDATE meta SET schema = 99").await.unwrap();
    for opened in
        [Store::open(&ledger.path()).await.err(), Store::open_read_only(&ledger.path()).await.err()]
    {
        let error = opened.unwrap();
        assert!(matches!(error, StoreError::NewerSchema { found: 99, .. }), "{error}");
        assert!(error.to_string().contains("ledger.db"), "{error}");
    }
    assert_eq!(ledger.count("SELECT schema FROM meta").await, 99);
}

#[tokio::test]
async fn a_closed_ledger_is_one_file_and_can_be_read() {
    let ledger = Ledger::new().await;
    ledger.open(1).await;
    ledger.store.close().await;
    let folder = ledger.folder().join("sub").read_dir().unwrap();
    assert_eq!(folder.count(), 1);
    let reader = Store::open_read_only(&ledger.path()).await.unwrap();
    assert!(reader.attempt_in_hand(&ledger.run).await.unwrap().is_some());
}

#[tokio::test]
async fn a_changed_migration_is_damage() {
    let ledger = Ledger::new().await;
    ledger.sql("UPDATE _sqlx_migrations SET checksum = x'00'").await.unwrap();
    let error = Store::open(&ledger.path()).await.err().unwrap();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
}

#[tokio::test]
async fn an_older_ledger_is_brought_up_to_date() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("old.db");
    let options = SqliteConnectOptions::new().filename(&path).create_if_missing(true);
    let mut connection = sqlx::SqliteConnection::connect_with(&options).await.unwrap();
    let first = MIGRATIONS.iter().take(1).cloned().collect();
    Migrator::with_migrations(first).run_direct(None, &mut connection, false).await.unwrap();
    let filled = "INSERT INTO meta VALUES (1, 'ledger', 0);
        INSERT INTO danger VALUES ('a', 'Hung/TIMEOUT: 5 s: too long', 1, 'o'),
            ('b', 'Faulted/GUARD: a/b', 2, 'o');";
    sqlx::raw_sql(filled).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    // Also by somebody who only reads.
    let reader = Store::open_read_only(&path).await.unwrap();
    assert_eq!(reader.claims().await.unwrap(), Vec::new());
    reader.close().await;
    let store = Store::open(&path).await.unwrap();
    for (key, verdict, first_seen_us) in [
        ("a", Verdict::failed(Reason::Timeout, "5 s: too long"), 1),
        ("b", Verdict::failed(Reason::Guard, "a/b"), 2),
    ] {
        let key = Digest::from(key.to_owned());
        let found = store.danger(&key).await.unwrap();
        assert_eq!(found, Some(DangerRow { key, verdict, report: None, first_seen_us }));
    }
    start_run(&store).await;
}

/// To read an older ledger it is brought up to date, which takes a place where that can be done.
#[tokio::test]
async fn an_older_ledger_that_may_not_be_written_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("old.db");
    let options = SqliteConnectOptions::new().filename(&path).create_if_missing(true);
    let mut connection = sqlx::SqliteConnection::connect_with(&options).await.unwrap();
    let older = MIGRATIONS.iter().take(4).cloned().collect();
    Migrator::with_migrations(older).run_direct(None, &mut connection, false).await.unwrap();
    let filled = "INSERT INTO meta VALUES (1, 'ledger', 0); UPDATE meta SET schema = 4";
    sqlx::raw_sql(filled).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
    // Root may write anywhere, but nobody can lock a folder.
    std::fs::create_dir(beside(&path, "open")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o400)).unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o500)).unwrap();
    let error = Store::open_read_only(&path).await.err().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    assert!(matches!(error, StoreError::OlderSchema { found: 4, .. }), "{error}");
    assert!(error.to_string().contains("schema 4") && error.to_string().contains("old.db"));
}

#[tokio::test]
async fn damaged_files_are_told_apart_from_absent_ones() {
    let folder = tempfile::tempdir().unwrap();
    let garbage = folder.path().join("garbage.db");
    std::fs::write(&garbage, "not a database at all".repeat(500)).unwrap();
    for opened in [Store::open(&garbage).await.err(), Store::open_read_only(&garbage).await.err()] {
        let error = opened.unwrap();
        assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
        assert!(error.to_string().contains("garbage.db"), "{error}");
    }
    let absent = Store::open_read_only(&folder.path().join("absent.db")).await.err().unwrap();
    assert!(matches!(absent, StoreError::Absent { .. }), "{absent}");
    // A pipe would be waited for.
    let pipe = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    for path in [folder.path(), &pipe, Path::new("/dev/null")] {
        for opened in [Store::open(path).await.err(), Store::open_read_only(path).await.err()] {
            let error = opened.unwrap();
            assert!(matches!(error, StoreError::CannotOpen { .. }), "{error}");
        }
    }
}

/// Whatever its creator had done before it was killed, the next one completes it.
#[tokio::test]
async fn an_unfinished_ledger_is_said_to_be_so_and_completed() {
    for migrations in [0, 1, MIGRATIONS.iter().count()] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("begun.db");
        let options = SqliteConnectOptions::new().filename(&path).create_if_missing(true);
        let mut connection = sqlx::SqliteConnection::connect_with(&options).await.unwrap();
        let done = MIGRATIONS.iter().take(migrations).cloned().collect();
        Migrator::with_migrations(done).run_direct(None, &mut connection, false).await.unwrap();
        connection.close().await.unwrap();
        let error = Store::open_read_only(&path).await.err().unwrap();
        assert!(matches!(error, StoreError::Unfinished { .. }), "{migrations}: {error}");
        assert!(error.to_string().contains("begun.db"), "{error}");
        Store::open(&path).await.unwrap().close().await;
        Store::open_read_only(&path).await.unwrap();
    }
}

/// A copy taken within a transaction is what a process killed there leaves.
#[tokio::test]
async fn a_half_written_transaction_is_undone_by_a_reader_too() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copy) = (folder.path().join("killed.db"), folder.path().join("left.db"));
    let options = SqliteConnectOptions::new().filename(&path).create_if_missing(true);
    let options = options.journal_mode(SqliteJournalMode::Delete);
    let mut connection = sqlx::SqliteConnection::connect_with(&options).await.unwrap();
    let first = MIGRATIONS.iter().take(1).cloned().collect();
    Migrator::with_migrations(first).run_direct(None, &mut connection, false).await.unwrap();
    let begun = "PRAGMA cache_size = 1; INSERT INTO meta VALUES (1, 'kept', 0); BEGIN;
        UPDATE meta SET ledger_id = 'undone';
        INSERT INTO danger WITH RECURSIVE row(n) AS
            (SELECT 1 UNION ALL SELECT n + 1 FROM row WHERE n < 5000)
            SELECT 'key ' || n, 'Hung/TIMEOUT: 5 s', n, 'o' FROM row;";
    sqlx::raw_sql(begun).execute(&mut connection).await.unwrap();
    std::fs::copy(&path, &copy).unwrap();
    std::fs::copy(path.with_extension("db-journal"), copy.with_extension("db-journal")).unwrap();
    assert_eq!(Store::open_read_only(&copy).await.unwrap().ledger_id(), "kept");
    assert_eq!(Store::open(&copy).await.unwrap().ledger_id(), "kept");
}

#[tokio::test]
async fn a_damaged_page_is_found() {
    let ledger = Ledger::new().await;
    for seq in 1..20 {
        ledger.open(seq).await;
    }
    ledger.store.check_file().await.unwrap();
    ledger.store.close().await;
    let mut bytes = std::fs::read(ledger.path()).unwrap();
    let middle = bytes.len() / 2;
    bytes[4096..middle].fill(0xa5);
    std::fs::write(ledger.path(), bytes).unwrap();
    let damaged = async {
        let store = Store::open(&ledger.path()).await?;
        store.check_file().await?;
        store.attempt_in_hand(&ledger.run).await
    };
    let error = damaged.await.unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
}

#[tokio::test]
async fn read_only_places_are_said_to_be_so() {
    let ledger = Ledger::new().await;
    let reader = Store::open_read_only(&ledger.path()).await.unwrap();
    assert_eq!(reader.ledger_id(), ledger.store.ledger_id());
    let error = open(&reader, &ledger.run, &ask(1)).await.unwrap_err();
    assert!(matches!(error, StoreError::ReadOnly { .. }), "{error}");
    let folder = ledger.folder().join("closed");
    std::fs::create_dir(&folder).unwrap();
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o500)).unwrap();
    let opened = Store::open(&folder.join("ledger.db")).await;
    // Root may write anywhere; for everyone else the folder is closed.
    if let Err(error) = opened {
        assert!(matches!(error, StoreError::ReadOnly { .. }), "{error}");
    }
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)).unwrap();
}

#[tokio::test]
async fn a_full_disk_loses_nothing_that_was_stored() {
    let ledger = Ledger::new().await;
    ledger.open(1).await;
    let pages = ledger.count("PRAGMA page_count").await;
    ledger.sql(&format!("PRAGMA max_page_count = {pages}")).await.unwrap();
    let mut full = None;
    for seq in 2..200 {
        if let Err(error) = open(&ledger.store, &ledger.run, &ask(seq)).await {
            full = Some(error);
            break;
        }
    }
    let error = full.unwrap();
    assert!(matches!(error, StoreError::DiskFull { .. }), "{error}");
    assert!(error.to_string().contains("free some"), "{error}");
    let chain = ledger.store.verify_chain(&ledger.run).await.unwrap();
    assert!(matches!(chain, crate::Chain::Intact { .. }), "{chain:?}");
}

#[tokio::test]
async fn a_writer_that_waits_too_long_says_so() {
    let ledger = Ledger::new().await;
    let other = ledger.another().await;
    let patience = "PRAGMA busy_timeout = 20";
    sqlx::query(patience).execute(other.writer_pool()).await.unwrap();
    let held = ledger.store.write().await.unwrap();
    let error = open(&other, &ledger.run, &ask(1)).await.unwrap_err();
    assert!(matches!(error, StoreError::Locked { .. }), "{error}");
    drop(held);
    open(&other, &ledger.run, &ask(1)).await.unwrap();
}

#[tokio::test]
async fn many_open_a_new_ledger_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("ledger.db");
    let opens: Vec<_> = (0..6)
        .map(|_| {
            let path = path.clone();
            tokio::spawn(async move { Store::open(&path).await.unwrap().ledger_id().to_owned() })
        })
        .collect();
    let mut ids = Vec::new();
    for open in opens {
        ids.push(open.await.unwrap());
    }
    assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
}

#[tokio::test]
async fn a_copy_is_one_whole_file_and_never_lands_beside_anothers_log() {
    let ledger = Ledger::new().await;
    ledger.bring(1, State::Closed).await;
    let copy = ledger.folder().join("copy.db");
    // While the original is being written.
    let reader = Store::open_read_only(&ledger.path()).await.unwrap();
    reader.copy_to(&copy).await.unwrap();
    let mode = std::fs::metadata(&copy).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let copied = Store::open_read_only(&copy).await.unwrap();
    assert!(copied.verify_run(&ledger.run).await.unwrap().is_ok());
    copied.check_file().await.unwrap();
    let (run, task) = (&ledger.run, task_hash());
    let original = ledger.store.closed_attempts(run, &task).await.unwrap();
    assert_eq!(copied.closed_attempts(run, &task).await.unwrap(), original);
    assert_eq!(copied.ledger_id(), ledger.store.ledger_id());
    for beside in ["", "-wal", "-shm", "-journal"] {
        let other = ledger.folder().join("other.db");
        let there = ledger.folder().join(format!("other.db{beside}"));
        std::fs::write(&there, "kept").unwrap();
        let refused = reader.copy_to(&other).await.unwrap_err().to_string();
        assert!(refused.contains("is there already"), "{refused}");
        assert_eq!(std::fs::read_to_string(&there).unwrap(), "kept");
        std::fs::remove_file(&there).unwrap();
    }
}

#[tokio::test]
async fn a_file_that_is_no_longer_the_named_one_is_neither_written_nor_read() {
    for (what, files) in [
        ("it is not there any more", &[""][..]),
        ("it is not there any more", &["", "-wal", "-shm"]),
        ("its -wal file was removed", &["-wal"]),
        ("another file is in its place", &[]),
    ] {
        let ledger = Ledger::new().await;
        let path = ledger.path();
        for beside in files {
            let mut name = path.clone().into_os_string();
            name.push(beside);
            std::fs::remove_file(name).unwrap();
        }
        if files.is_empty() {
            let other = ledger.folder().join("other");
            std::fs::copy(&path, &other).unwrap();
            std::fs::rename(&other, &path).unwrap();
        }
        let told = ledger.store.tell(&ledger.run, None, &pipeline::tell::Said::Pause, "ada").await;
        let error = told.unwrap_err();
        assert!(matches!(error, StoreError::Gone { what: found, .. } if found == what), "{error}");
        // Without its log alone it may be read or not: nothing of that is lost.
        if files != ["-wal"] {
            assert!(ledger.store.tells(&ledger.run).await.is_err(), "{what}");
        }
    }
}
