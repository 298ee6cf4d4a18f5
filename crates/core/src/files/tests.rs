use super::names::{common, relative};
use super::*;
use crate::ids::TaskId;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::format;
use alloc::string::{String, ToString as _};
use alloc::vec;
use alloc::vec::Vec;
use proptest::prelude::*;

fn bytes(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

fn texts<'a>(names: impl IntoIterator<Item = &'a Vec<u8>>) -> Vec<String> {
    names.into_iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect()
}

/// Tasks 0, 1, ... with these files below `/run`.
fn policy(targets: &[&str]) -> FilePolicy {
    let mut policy = FilePolicy::new(b"/run", true);
    for (number, name) in (0..).zip(targets) {
        policy.name_task(TaskId(number), format!("/run/{name}").into_bytes());
    }
    policy
}

fn declare(policy: &mut FilePolicy, id: u32, outputs: &[&str], inputs: &[&str]) {
    let (outputs, inputs) = (Some(bytes(outputs)), Some(bytes(inputs)));
    policy.declare(Declaration { outputs, inputs, place: b"Rakefile:1".to_vec() });
    let number = u32::try_from(policy.declarations()).unwrap();
    policy.add_task(TaskId(id), number);
}

#[test]
fn names_that_begin_as_the_target_up_to_its_first_dot_belong_to_it() {
    let is = |target: &str, other: &str| begins_as(target.as_bytes(), other.as_bytes());
    for (target, other) in [
        ("tile_1.fits", "tile_1_area.fits"),
        ("ref.fa.amb", "ref.fa.bwt"),
        ("proteins.pin", "proteins"),
        ("proteins", "proteins.phr"),
        ("index.1.bt2", "index.rev.1.bt2"),
        (".hidden.a", ".hidden.b"),
    ] {
        assert!(is(target, other), "{target}: {other}");
    }
    for (target, other) in [
        ("tile_1.fits", "tile_10.fits"),
        ("tile_1.fits", "tile_1a.fits"),
        ("tile_1.fits", "tile_1\u{e9}.fits"),
        ("tile_1.fits", "my_tile_1.fits"),
        (".hidden.a", ".other"),
    ] {
        assert!(!is(target, other), "{target}: {other}");
    }
}

#[test]
fn what_is_left_of_a_failed_attempt_or_a_transfer_is_nobodys() {
    for name in ["out.txt._fail_", ".rakuda-part-3"] {
        assert!(is_left_over(name.as_bytes()), "{name}");
    }
    for name in ["out.txt", "a._fail_.txt", "x.rakuda-part-3", ""] {
        assert!(!is_left_over(name.as_bytes()), "{name}");
    }
}

#[test]
fn a_file_goes_with_the_target_whose_name_is_most_like_its_own() {
    let targets =
        ["a.fits", "a_1.fits", "b", "d.1.2.plane", "d.1.3.plane", "d.1.30.plane", "sub/a_area.x"];
    for (name, owner) in [
        ("a_area.fits", "a.fits"),
        ("a.hdr", "a.fits"),
        ("a_1_area.fits", "a_1.fits"),
        ("b.log", "b"),
        ("b_log", "b"),
        ("d.1.2_area.fits", "d.1.2.plane"),
        ("d.1.3.fits", "d.1.3.plane"),
        ("d.1.30.fits", "d.1.30.plane"),
        ("sub/a_area_2", "sub/a_area.x"),
    ] {
        let mut owners = Vec::new();
        for (id, target) in (0..).zip(targets) {
            let mut policy = policy(&targets);
            let (target, file) = (format!("/run/{target}"), format!("/run/{name}"));
            let beside = folder_and_name(target.as_bytes()).0 == folder_and_name(file.as_bytes()).0;
            let found = if beside { [(file.into_bytes(), 1)].into() } else { Vec::new() };
            let claim =
                policy.claim(TaskId(id), target.as_bytes(), Vec::new(), found, |_, _, _| false);
            owners.extend(claim.files.first().map(|_| targets[id as usize]));
        }
        assert_eq!(owners, [owner], "of {name}");
    }
    let own = policy(&targets).claim(
        TaskId(0),
        b"/run/a.fits",
        Vec::new(),
        [(b"/run/a_1.fits".to_vec(), 1)].into(),
        |_, _, _| false,
    );
    assert_eq!(own.files, [], "it is a task's own file");
}

#[test]
fn what_is_written_anew_changes_hands_and_what_was_before_stays() {
    let mut policy = policy(&["a.x", "a.y"]);
    let found = |state| [(b"/run/a.idx".to_vec(), state)].to_vec();
    let kept = [(b"a.old".to_vec(), 1)].to_vec();
    let first = policy.claim(TaskId(0), b"/run/a.x", kept, found(1), |_, _, _| false);
    assert_eq!(texts(first.files.iter().map(|(name, _)| name)), ["a.idx", "a.old"]);
    let again =
        policy.claim(TaskId(1), b"/run/a.y", Vec::new(), found(1), |_, _, state| state == 1);
    assert_eq!((again.files, again.taken), (Vec::new(), Vec::new()), "it is the first one's");
    let anew = policy.claim(TaskId(1), b"/run/a.y", Vec::new(), found(2), |_, _, state| state == 1);
    assert_eq!(anew.files, [(b"a.idx".to_vec(), 2)]);
    assert_eq!(anew.taken, [(TaskId(0), b"/run/a.idx".to_vec())]);
    assert_eq!(policy.owner_of(b"/run/a.idx", |_, _| true), Some(TaskId(1)));
    assert_eq!(policy.owner_of(b"/run/a.idx", |_, _| false), None, "it has another state by now");
}

#[test]
fn a_tasks_file_is_found_by_its_whole_name() {
    let policy = policy(&["a", "b"]);
    assert_eq!(policy.task_at(b"/run/b"), Some(TaskId(1)));
    assert_eq!(policy.task_at(b"b"), None);
}

#[test]
fn a_declaration_outweighs_a_guess_and_yields_to_an_earlier_one() {
    let mut policy = policy(&["ref.fa.amb", "ref.fa.bwt", "other"]);
    declare(&mut policy, 2, &["ref.fa.*", "out/x"], &[]);
    let target = |id: u32| ["/run/ref.fa.amb", "/run/ref.fa.bwt", "/run/other"][id as usize];
    let mut claim = |id: u32, names: &[&str]| {
        let found = names.iter().map(|name| (name.as_bytes().to_vec(), 1)).collect();
        policy.claim(TaskId(id), target(id).as_bytes(), Vec::new(), found, |_, _, _| true)
    };
    assert_eq!(claim(0, &["/run/ref.fa.sa"]).files.len(), 1);
    let declared = claim(2, &["/run/ref.fa.sa", "/run/ref.fa.bwt", "/run/out/x", "/run/other"]);
    assert_eq!(texts(declared.files.iter().map(|(name, _)| name)), ["out/x", "ref.fa.sa"]);
    assert_eq!(declared.taken, [(TaskId(0), b"/run/ref.fa.sa".to_vec())]);
    declare(&mut policy, 1, &["^.*"], &[]);
    let later = [(b"/run/ref.fa.sa".to_vec(), 1)].to_vec();
    let later = policy.claim(TaskId(1), b"/run/ref.fa.bwt", Vec::new(), later, |_, _, _| true);
    assert_eq!(later.files, []);
}

#[test]
fn patterns_are_names_in_the_runs_folder_or_added_to_names() {
    let anchors = bytes(&["/run/d/ref.fa", "/run/x.tar.gz", "/run/.rc", "/run/a*b"]);
    let meant = |pattern: &str| -> Vec<String> {
        let of = anchors.iter().map(Vec::as_slice);
        let all = Matching::of(pattern.as_bytes(), b"/run", of);
        let text = |one: &Matching| {
            let parts = [&one.folder[..], &one.prefix, &one.glob];
            parts.map(|part| core::str::from_utf8(part).unwrap()).join("|")
        };
        all.iter().map(text).collect()
    };
    assert_eq!(meant("ref.fa.*"), ["/run||ref.fa.*"]);
    assert_eq!(meant("./.nextflow"), ["/run||.nextflow"]);
    assert_eq!(meant("a/./b/x?"), ["/run/a/b||x?"]);
    let suffix = ["/run/d|ref.fa|.bai", "/run|x.tar.gz|.bai", "/run|.rc|.bai", "/run|a*b|.bai"];
    assert_eq!(meant(".bai"), suffix);
    assert_eq!(meant("^_*"), ["/run/d|ref|_*", "/run|x.tar|_*", "/run|.rc|_*", "/run|a*b|_*"]);
    assert_eq!(meant("^^.x")[1], "/run|x|.x");
    let [star] = &Matching::of(b".i*", b"/run", [&b"/run/a*b"[..]].into_iter())[..] else {
        panic!()
    };
    assert!(star.has(b"a*b.idx") && !star.has(b"axb.idx"), "stars of the name are no stars");
    assert_eq!(star.only(), None);
    let [one] = &Matching::of(b"^.x", b"/run", [&b"/run/a.b"[..]].into_iter())[..] else {
        panic!()
    };
    assert_eq!(one.only().as_deref(), Some(&b"a.x"[..]));
}

#[test]
fn a_task_that_declares_or_a_run_that_does_not_guess_is_not_guessed_about() {
    let mut policy = policy(&["a", "b", "c"]);
    declare(&mut policy, 1, &[], &[]);
    declare(&mut policy, 2, &[".x", "d/y.*"], &["in.*"]);
    let names = || names_in([&b"sh tool a/b /usr/bin/x"[..]].into_iter(), b"/run");
    assert_eq!(policy.searches(TaskId(0), b"/run/a", true), [Search::LikeTarget]);
    assert_eq!(
        policy.searches(TaskId(0), b"/run/a", false),
        [],
        "there is no time to compare with"
    );
    assert_eq!(policy.searches(TaskId(1), b"/run/b", true), []);
    let [Search::Matching { pattern, files }, Search::Matching { .. }] =
        &policy.searches(TaskId(2), b"/run/c", false)[..]
    else {
        panic!("two patterns are two searches");
    };
    assert_eq!((pattern.as_slice(), files.only()), (&b".x"[..], Some(b"c.x".to_vec())));
    assert_eq!(
        texts(&policy.names_to_look_at(TaskId(0), names())),
        ["/run/a/b", "/run/sh", "/run/tool"]
    );
    assert!(policy.names_to_look_at(TaskId(1), names()).is_empty());
    let inputs: Vec<_> = policy.inputs(TaskId(2), &[]).collect();
    assert_eq!(inputs.len(), 1);
    let silent = FilePolicy::new(b"/run", false);
    assert_eq!(silent.searches(TaskId(0), b"/run/a", true), []);
    assert!(silent.names_to_look_at(TaskId(0), names()).is_empty());
}

#[test]
fn what_is_declared_of_outputs_says_nothing_of_inputs() {
    let mut policy = policy(&["outputs", "inputs", "nothing"]);
    let declaration = |outputs, inputs| Declaration { outputs, inputs, place: Vec::new() };
    policy.declare(declaration(Some(bytes(&[".x"])), None));
    policy.declare(declaration(None, Some(bytes(&["in"]))));
    for (id, number) in [(0, 1), (1, 2), (2, 0)] {
        policy.add_task(TaskId(id), number);
    }
    let ids = [0, 1, 2].map(TaskId);
    assert_eq!(ids.map(|id| policy.guesses_outputs(id)), [false, true, true]);
    assert_eq!(ids.map(|id| policy.declares_outputs(id)), [true, false, false]);
    assert_eq!(policy.searches(TaskId(1), b"/run/inputs", true), [Search::LikeTarget]);
    let named = |id| policy.names_to_look_at(id, bytes(&["/run/a"]).into_iter().collect()).len();
    assert_eq!(ids.map(named), [1, 0, 1]);
    assert_eq!(ids.map(|id| policy.inputs(id, &[]).count()), [0, 1, 0]);
    declare(&mut policy, 2, &[], &[]);
    assert!(!policy.declares_outputs(TaskId(2)) && !policy.guesses_outputs(TaskId(2)));
    let silent = FilePolicy::new(b"/run", false);
    assert!(!silent.guesses_outputs(TaskId(0)));
}

#[test]
fn only_names_below_the_runs_folder_are_looked_at() {
    let names = || bytes(&["/run", "/run/a", "/runner/a", "/a"]).into_iter().collect();
    let in_run = FilePolicy::new(b"/run/", true).names_to_look_at(TaskId(0), names());
    assert_eq!(texts(&in_run), ["/run/a"]);
    assert_eq!(FilePolicy::new(b"/", true).names_to_look_at(TaskId(0), names()).len(), 4);
}

#[test]
fn a_pattern_means_secondary_files_that_their_tasks_still_have() {
    let mut policy = policy(&["d/a", "d/b"]);
    policy.know_secondary(TaskId(0), bytes(&["/run/d/a.idx", "/run/a.idx"]).into_iter());
    policy.know_secondary(TaskId(1), bytes(&["/run/d/b.idx"]).into_iter());
    let [idx] = &Matching::of(b"d/*.idx", b"/run", core::iter::empty())[..] else { panic!() };
    let owners = |keeps: fn(TaskId) -> bool| policy.owners(idx, |id, _| keeps(id));
    assert_eq!(owners(|_| true), BTreeSet::from([TaskId(0), TaskId(1)]));
    assert_eq!(owners(|id| id == TaskId(1)), BTreeSet::from([TaskId(1)]));
    let [whole] = &Matching::of(b"a.idx", b"/run", core::iter::empty())[..] else { panic!() };
    assert_eq!(policy.owners(whole, |_, _| true), BTreeSet::from([TaskId(0)]));
}

#[test]
fn a_guess_claims_neither_targets_nor_what_is_more_like_another_and_a_declaration_does() {
    let mut policy = policy(&["a.x", "a.y", "a_b.x"]);
    declare(&mut policy, 2, &["a*"], &[]);
    let mut claim = |id: u32, target: &str, names: &[&str]| {
        let path = |name: &&str| (format!("/run/{name}").into_bytes(), 1);
        let found = names.iter().map(path).collect();
        let target = format!("/run/{target}").into_bytes();
        let claim = policy.claim(TaskId(id), &target, Vec::new(), found, |_, _, _| true);
        texts(claim.files.iter().map(|(name, _)| name))
    };
    let found = ["a.x", "a.y", "a.log", "a_b.log", "b.log"];
    assert_eq!(claim(0, "a.x", &found), ["a.log"]);
    assert_eq!(claim(0, "a.x", &found), ["a.log"], "what it has is its own still");
    assert_eq!(claim(2, "a_b.x", &found), ["a.log", "a_b.log", "b.log"]);
}

#[test]
fn words_options_and_assignments_name_files() {
    let line = &b"sh bin/tool.sh --table=a/b.tbl -q <in/1 >'out/x' && cmp ./in/1 ../other"[..];
    let found = texts(&names_in([line].into_iter(), b"/run"));
    for name in ["/run/bin/tool.sh", "/run/a/b.tbl", "/run/in/1", "/run/out/x", "/other"] {
        assert!(found.iter().any(|other| other == name), "{name} in {found:?}");
    }
    assert!(!found.iter().any(|name| name.contains("-q")));
    let found = texts(&names_in([&b"/bin/cat x"[..]].into_iter(), b"/run/sub"));
    assert_eq!(found, ["/bin/cat", "/run/sub/x"]);
}

#[test]
fn a_command_needs_what_its_words_name_and_what_lies_in_folders_that_they_name() {
    let mut policy = policy(&["own", "made/1", "made/2", "gone", "out/own"]);
    policy.know_secondary(TaskId(1), [b"/run/made/1.idx".to_vec()].into_iter());
    let keeps = |id: TaskId, _: &[u8]| id != TaskId(3);
    let needed = |id: u32, target: &str, names: &[(&str, Seen)]| {
        let names = names.iter().map(|(name, seen)| (format!("/run/{name}").into_bytes(), *seen));
        let names: Vec<_> = names.collect();
        let needed =
            policy.undeclared(TaskId(id), format!("/run/{target}").as_bytes(), &names, keeps);
        let tasks: Vec<u32> = needed.tasks.iter().map(|task| task.0).collect();
        (tasks, texts(&needed.files), texts(&needed.folders))
    };
    let none = Vec::<String>::new;
    let made = vec!["/run".to_string(), "/run/made".to_string()];
    assert_eq!(needed(0, "own", &[("made", Seen::Folder)]), (vec![1, 2], none(), made.clone()));
    let idx = needed(0, "own", &[("made/1.idx", Seen::Nothing), ("own", Seen::File)]);
    assert_eq!(idx, (vec![1], none(), made));
    let script = needed(0, "own", &[("tool", Seen::File), ("words", Seen::Nothing)]);
    assert_eq!(script, (vec![], vec!["/run/tool".to_string()], vec!["/run".to_string()]));
    let gone = needed(0, "own", &[("gone", Seen::Nothing)]);
    assert_eq!(gone.0, Vec::<u32>::new());
    let own = needed(1, "made/1", &[("made/1.idx", Seen::Nothing), ("made/1", Seen::File)]);
    assert_eq!((own.0, own.1), (vec![], none()), "what it makes itself");
    let around = needed(4, "out/own", &[("out", Seen::Folder)]);
    assert_eq!(around.0, Vec::<u32>::new(), "it is where the target is to be");
}

#[test]
fn what_lies_elsewhere_is_called_by_its_way_from_the_targets_folder() {
    for (folder, path, name) in [
        ("/run", "/run/x", "x"),
        ("/run/a", "/run/b/x", "../b/x"),
        ("/run/a/b", "/run/x", "../../x"),
        ("/run", "/run/a/b/x", "a/b/x"),
    ] {
        let found = relative(folder.as_bytes(), path.as_bytes());
        assert_eq!(String::from_utf8(found.clone()).unwrap(), name);
        assert_eq!(absolute(folder.as_bytes(), &found), path.as_bytes());
    }
}

/// Short names of few letters, so that many begin alike.
fn a_name() -> impl Strategy<Value = String> {
    "[ab1]{1,2}([._][ab1]{1,2}){0,2}"
}

fn naive_glob(glob: &[u8], name: &[u8]) -> bool {
    match (glob, name) {
        ([], rest) => rest.is_empty(),
        ([b'*', rest @ ..], _) => (0..=name.len()).any(|taken| naive_glob(rest, &name[taken..])),
        ([b'?', rest @ ..], [_, after @ ..]) => naive_glob(rest, after),
        ([byte, rest @ ..], [first, after @ ..]) => byte == first && naive_glob(rest, after),
        (_, []) => false,
    }
}

#[test]
fn stars_try_every_length() {
    assert!(matches_glob(b"*a*b", b"xaab"));
    assert!(matches_glob(b"*ab", b"xyzab") && !matches_glob(b"*ab", b"xyzac"));
    assert!(matches_glob(b"**", b"") && matches_glob(b"n*[1", b"n0[1"));
    assert!(!matches_glob(b"*a*b", b"xaabc"));
    assert!(!matches_glob(b"a?", b"a") && !matches_glob(b"", b"a"));
}

proptest! {
    #[test]
    fn likeness_is_what_a_look_at_all_targets_says(
        targets in proptest::collection::btree_set(a_name(), 1..12),
        name in a_name(),
    ) {
        let list: Vec<&str> = targets.iter().map(String::as_str).collect();
        let policy = policy(&list);
        let path = format!("/run/{name}");
        for own in &list {
            let rivals = list.iter().filter(|rival| begins_as(rival.as_bytes(), name.as_bytes()));
            let most = rivals.map(|rival| common(rival.as_bytes(), name.as_bytes())).max();
            let is_own = begins_as(own.as_bytes(), name.as_bytes());
            let expected = is_own && most <= Some(common(own.as_bytes(), name.as_bytes()));
            let target = format!("/run/{own}");
            prop_assert_eq!(policy.is_most_like(path.as_bytes(), target.as_bytes()), expected);
        }
    }

    #[test]
    fn no_file_is_two_targets_own_whatever_ends_first(
        targets in proptest::collection::btree_set(a_name(), 1..8),
        files in proptest::collection::btree_set(a_name(), 1..8),
        order in proptest::collection::vec(0usize..8, 1..16),
        declaring in proptest::collection::btree_map(0u32..8, a_name(), 0..3),
    ) {
        let list: Vec<&str> = targets.iter().map(String::as_str).collect();
        let mut policy = policy(&list);
        for (id, name) in &declaring {
            declare(&mut policy, *id, &[&format!("{name}*")], &[]);
        }
        let mut books: BTreeMap<TaskId, BTreeSet<Vec<u8>>> = BTreeMap::new();
        for (round, index) in order.iter().enumerate() {
            let Some(target) = list.get(*index) else { continue };
            let id = TaskId(u32::try_from(*index).unwrap());
            let path = format!("/run/{target}").into_bytes();
            let fits = |name: &&String| match declaring.get(&id.0) {
                Some(pattern) => name.starts_with(pattern.as_str()),
                None => begins_as(target.as_bytes(), name.as_bytes()),
            };
            // Each file is written anew every other round.
            let found = files.iter().filter(fits);
            let found = found.map(|name| (format!("/run/{name}").into_bytes(), round / 2)).collect();
            let has = |owner: TaskId, path: &[u8], _: usize| {
                round % 2 == 1 && books.get(&owner).is_some_and(|names| names.contains(path))
            };
            let claim = policy.claim(id, &path, Vec::new(), found, has);
            for (owner, taken) in &claim.taken {
                books.get_mut(owner).map(|names| names.remove(taken));
            }
            let names = claim.files.iter().map(|(name, _)| absolute(b"/run", name));
            books.insert(id, names.collect());
            for (owner, names) in &books {
                for name in names {
                    prop_assert!(policy.task_at(name).is_none(), "a task's file is its own");
                    let others = books.iter().filter(|(other, names)| *other != owner && names.contains(name));
                    prop_assert_eq!(others.count(), 0, "{:?}", name);
                    prop_assert_eq!(policy.owner_of(name, |_, _| true), Some(*owner));
                }
            }
        }
    }

    #[test]
    fn globs_match_what_trying_all_lengths_matches(glob in "[ab*?]{0,8}", name in "[ab]{0,8}") {
        let (glob, name) = (glob.as_bytes(), name.as_bytes());
        prop_assert_eq!(matches_glob(glob, name), naive_glob(glob, name));
    }

    #[test]
    fn owners_of_a_pattern_are_those_whose_files_match(
        targets in proptest::collection::btree_set("([ab]/)?[ab*]{1,3}", 1..12),
        glob in "([ab]/)?[ab]{0,1}[*?]{0,2}[ab]{0,1}",
    ) {
        prop_assume!(!glob.is_empty() && !glob.ends_with('/'));
        let list: Vec<&str> = targets.iter().map(String::as_str).collect();
        let policy = policy(&list);
        let [meant] = &Matching::of(glob.as_bytes(), b"/run", core::iter::empty())[..] else { panic!() };
        let slash = |text: &str| text.rfind('/').map_or(0, |at| at + 1);
        let (glob_folder, glob_name) = glob.split_at(slash(&glob));
        let fits = |(_, name): &(u32, &&str)| {
            let (folder, name) = name.split_at(slash(name));
            folder == glob_folder && naive_glob(glob_name.as_bytes(), name.as_bytes())
        };
        let expected: BTreeSet<TaskId> =
            (0..).zip(&list).filter(fits).map(|(number, _)| TaskId(number)).collect();
        prop_assert_eq!(policy.owners(meant, |_, _| true), expected);
    }

    #[test]
    fn absolute_names_stay_as_they_are(name in "[a./]{0,12}") {
        let once = absolute(b"/run", name.as_bytes());
        prop_assert_eq!(&absolute(b"/other", &once), &once);
        let parts: Vec<&[u8]> = once.split(|byte| *byte == b'/').skip(1).collect();
        let odd = parts.iter().any(|part| [&b""[..], b".", b".."].contains(part));
        prop_assert!(once == b"/" || !odd);
    }
}
