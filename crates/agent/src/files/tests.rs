//! Files over streams in memory: a file that comes whole is there, and one that does not leaves nothing.

use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rakuda_link::content::{
    Piece, read_message, read_piece, write_end, write_message, write_piece,
};
use rakuda_proto::Text;
use rakuda_proto::files::{ContentEnd, FileAnswer, FileRequest, FileVersion};
use tokio::io::DuplexStream;

use super::writes::Writes;
use super::{FOLDERS, answer, answer_beside, own_folder, remove_unused, unused, version_of};

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("rakuda-files-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// As `scratch` is, and with what holds the folders of runs in it.
    fn scratch(name: &str) -> Self {
        let folder = Self::new(name);
        std::fs::set_permissions(&folder.0, PermissionsExt::from_mode(0o700)).unwrap();
        std::fs::DirBuilder::new().mode(0o700).create(folder.0.join(FOLDERS)).unwrap();
        folder
    }

    fn names(&self) -> Vec<String> {
        names_in(&self.0)
    }
}

fn names_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Removes a folder that no agent works in. A process that another test starts holds the descriptors of this one, and
/// so its locks, until it executes something.
fn remove(path: &Path) {
    while let Err(error) = remove_unused(path) {
        assert_eq!(error.kind(), std::io::ErrorKind::ResourceBusy, "{error}");
        std::thread::yield_now();
    }
}

#[test]
fn a_folder_that_an_agent_works_in_is_not_removed_and_one_that_is_removed_is_not_worked_in() {
    let folder = Folder::scratch("unused");
    let own = folder.0.join(FOLDERS).join("run");
    let lock = own_folder(&own).unwrap();
    std::fs::write(own.join("file"), "content").unwrap();
    assert_eq!(remove_unused(&own).unwrap_err().kind(), std::io::ErrorKind::ResourceBusy);
    assert!(own.join("file").exists());
    drop(lock);
    let mut found = Vec::new();
    while found.is_empty() {
        found = unused(&folder.0);
    }
    assert_eq!(found, [own.as_path()]);
    remove(&own);
    assert!(names_in(&folder.0.join(FOLDERS)).is_empty());
    std::thread::scope(|scope| {
        let removing = scope.spawn(|| {
            for _ in 0..3000 {
                let _ = remove_unused(&own);
            }
        });
        while !removing.is_finished() {
            if let Some(_lock) = own_folder(&own).unwrap() {
                std::fs::write(own.join("file"), "content").unwrap();
                assert!(own.join("file").exists());
            }
        }
    });
}

#[test]
fn folders_that_others_may_have_put_there_are_not_removed() {
    let home = Folder::new("home");
    drop(own_folder(&home.0.join("precious")).unwrap());
    // Another's folder leads to this user's.
    let folder = Folder::scratch("led");
    let holder = folder.0.join(FOLDERS);
    std::fs::remove_dir(&holder).unwrap();
    symlink(&home.0, &holder).unwrap();
    assert!(unused(&folder.0).is_empty());
    remove_unused(&holder.join("precious")).unwrap_err();
    // Others may write to one of the two folders.
    for name in ["", FOLDERS] {
        let folder = Folder::scratch("open");
        let own = folder.0.join(FOLDERS).join("run");
        drop(own_folder(&own).unwrap());
        std::fs::set_permissions(folder.0.join(name), PermissionsExt::from_mode(0o777)).unwrap();
        assert!(unused(&folder.0).is_empty(), "{name}");
        let refused = remove_unused(&own).unwrap_err().to_string();
        assert!(refused.contains("nobody else may write"), "{refused}");
        assert!(own.exists());
    }
    assert_eq!(home.names(), ["precious"]);
}

fn text(path: &Path) -> Text {
    Text::from(path.to_str().unwrap().to_owned())
}

/// A conversation with a server of its own.
async fn asked(request: FileRequest) -> DuplexStream {
    asked_beside(request, &Rc::default()).await
}

/// The same with one that has others.
async fn asked_beside(request: FileRequest, writes: &Rc<Writes>) -> DuplexStream {
    let (mut here, there) = tokio::io::duplex(1 << 20);
    tokio::task::spawn_local(answer_beside(there, Rc::clone(writes)));
    write_message(&mut here, &request).await.unwrap();
    here
}

fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, test)
}

const CONTENT: &[u8] = b"what is to be staged";
const VERSION: FileVersion = FileVersion { bytes: 20, modified_ns: 1_234_567_891_000_000_007 };

fn write_to(path: &Path) -> FileRequest {
    FileRequest::Write { path: text(path), version: VERSION, mode: 0o755 }
}

#[test]
fn a_file_that_came_whole_is_there_with_time_and_permissions_and_can_be_read_again() {
    let folder = Folder::new("whole");
    let path = folder.0.join("a/b/file");
    run(async {
        let mut stream = asked(write_to(&path)).await;
        write_piece(&mut stream, &CONTENT[..5]).await.unwrap();
        write_piece(&mut stream, &CONTENT[5..]).await.unwrap();
        let digest = *blake3::hash(CONTENT).as_bytes();
        write_end(&mut stream, &ContentEnd::Whole { digest }).await.unwrap();
        let told: FileAnswer = read_message(&mut stream).await.unwrap();
        assert_eq!(told, FileAnswer::Done);
        assert_eq!(version_of(&path), Some(VERSION));
        assert_eq!(std::fs::read(&path).unwrap(), CONTENT);
        let read = FileRequest::Read { path: text(&path), version: VERSION };
        let mut stream = asked(read).await;
        let told: FileAnswer = read_message(&mut stream).await.unwrap();
        assert_eq!(told, FileAnswer::Content { mode: 0o755 });
        assert_eq!(read_piece(&mut stream).await.unwrap(), Piece::Bytes(CONTENT.to_vec()));
        let end = Piece::End(ContentEnd::Whole { digest });
        assert_eq!(read_piece(&mut stream).await.unwrap(), end);
        let other = FileVersion { modified_ns: 1, ..VERSION };
        for (version, stays) in [(other, true), (VERSION, false), (VERSION, false)] {
            let files = vec![(text(&path), version)];
            let mut stream = asked(FileRequest::Remove { files }).await;
            assert_eq!(read_message::<FileAnswer>(&mut stream).await.unwrap(), FileAnswer::Done);
            assert_eq!(path.exists(), stays);
        }
    });
}

#[test]
fn what_is_being_written_is_removed_when_it_has_come() {
    let folder = Folder::new("late");
    let path = folder.0.join("file");
    run(async {
        let writes = Rc::default();
        let mut writing = asked_beside(write_to(&path), &writes).await;
        write_piece(&mut writing, CONTENT).await.unwrap();
        while folder.names().is_empty() {
            tokio::task::yield_now().await;
        }
        let remove = |path| FileRequest::Remove { files: vec![(text(path), VERSION)] };
        let mut removing = asked_beside(remove(&path), &writes).await;
        let mut other = asked_beside(remove(&folder.0.join("other")), &writes).await;
        let told: FileAnswer = read_message(&mut other).await.unwrap();
        assert_eq!(told, FileAnswer::Done, "nobody writes that");
        let digest = *blake3::hash(CONTENT).as_bytes();
        write_end(&mut writing, &ContentEnd::Whole { digest }).await.unwrap();
        for stream in [&mut writing, &mut removing] {
            assert_eq!(read_message::<FileAnswer>(stream).await.unwrap(), FileAnswer::Done);
        }
        assert_eq!(folder.names(), [""; 0]);
    });
}

#[test]
fn a_version_of_any_year_is_asked_for_as_it_is() {
    run(async {
        for seconds in [i64::MIN, -9_300_000_000, 13_569_465_600, i64::MAX] {
            let modified_ns = rakuda_proto::file_time::file_ns(seconds, 4);
            let version = FileVersion { modified_ns, ..VERSION };
            let request = FileRequest::Read { path: text(Path::new("/a")), version };
            let (mut here, mut there) = tokio::io::duplex(1 << 10);
            write_message(&mut here, &request).await.unwrap();
            assert_eq!(read_message::<FileRequest>(&mut there).await.unwrap(), request);
        }
    });
}

#[test]
fn what_is_harmed_or_short_or_broken_off_is_not_taken_and_leaves_nothing() {
    let folder = Folder::new("harmed");
    let path = folder.0.join("file");
    let good = *blake3::hash(CONTENT).as_bytes();
    let short = *blake3::hash(&CONTENT[1..]).as_bytes();
    let ends = [
        (CONTENT, ContentEnd::Whole { digest: [0; 32] }, "its digest is another"),
        (&CONTENT[1..], ContentEnd::Whole { digest: good }, "its digest is another"),
        (&CONTENT[1..], ContentEnd::Whole { digest: short }, "19 bytes came, not 20"),
        (CONTENT, ContentEnd::Broken { reason: "written to".into() }, "written to"),
    ];
    run(async {
        for (content, end, why) in ends {
            let mut stream = asked(write_to(&path)).await;
            write_piece(&mut stream, content).await.unwrap();
            write_end(&mut stream, &end).await.unwrap();
            let FileAnswer::Failed { reason } = read_message(&mut stream).await.unwrap() else {
                panic!("{end:?} was taken");
            };
            assert!(reason.contains(why), "{reason}");
            assert_eq!(folder.names(), [""; 0]);
        }
        let (mut here, there) = tokio::io::duplex(1 << 20);
        write_message(&mut here, &write_to(&path)).await.unwrap();
        write_piece(&mut here, CONTENT).await.unwrap();
        drop(here);
        answer(there).await;
        assert_eq!(folder.names(), [""; 0], "the stream broke off");
    });
}

#[test]
fn another_state_of_a_file_and_a_folder_are_refused() {
    let folder = Folder::new("other");
    let path = folder.0.join("file");
    std::fs::write(&path, CONTENT).unwrap();
    run(async {
        for (path, why) in [(&path, "it is not what it was"), (&folder.0, "it is a folder")] {
            let read = FileRequest::Read { path: text(path), version: VERSION };
            let mut stream = asked(read).await;
            let FileAnswer::Failed { reason } = read_message(&mut stream).await.unwrap() else {
                panic!("{path:?} was sent");
            };
            assert!(reason.contains(why), "{reason}");
        }
    });
}
