//! What the user of `rakudactl top` looks at: which failure, from which running task on, what is looked for, whether
//! the help is shown. Keys change it; it knows neither terminal nor run.

use super::screen::Key;

/// What is looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct View {
    /// The place of the failure that is shown, among all.
    pub chosen: usize,
    /// Running tasks before the first that is shown.
    pub from: usize,
    /// What is looked for. Empty: nothing.
    pub words: String,
    /// It is being typed.
    pub typing: bool,
    /// The help is shown instead of the run.
    pub help: bool,
}

/// What a key asks for beside another view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// Nothing.
    Nothing,
    /// To leave.
    Leave,
    /// The whole screen anew.
    Again,
}

impl View {
    /// A key was pressed. `page`: number of running tasks that are seen at once.
    pub fn press(&mut self, key: Key, page: usize) -> Asked {
        if key == Key::Interrupt {
            return Asked::Leave;
        }
        if self.typing {
            self.type_in(key);
            return Asked::Nothing;
        }
        if self.help {
            // Any key closes it; one that leaves does not leave the run.
            self.help = false;
            return Asked::Nothing;
        }
        let page = page.max(1);
        match key {
            Key::Letter('q' | 'Q') => return Asked::Leave,
            Key::Escape if self.words.is_empty() => return Asked::Leave,
            Key::Escape => self.look_for(String::new()),
            Key::Down | Key::Letter('j' | 'n') | Key::Tab => self.chosen += 1,
            Key::Up | Key::Letter('k' | 'p') => self.chosen = self.chosen.saturating_sub(1),
            Key::PageDown | Key::Letter('f') => self.from = self.from.saturating_add(page),
            Key::PageUp | Key::Letter('b') => self.from = self.from.saturating_sub(page),
            Key::Home | Key::Letter('g') => self.from = 0,
            Key::End | Key::Letter('G') => self.from = usize::MAX,
            Key::Letter('/') => self.typing = true,
            Key::Letter('?' | 'h') => self.help = true,
            Key::Letter(' ') | Key::Enter | Key::Redraw => return Asked::Again,
            Key::Letter(_) | Key::Erase | Key::Interrupt => {}
        }
        Asked::Nothing
    }

    fn type_in(&mut self, key: Key) {
        match key {
            Key::Letter(letter) => {
                let words = format!("{}{letter}", self.words);
                self.look_for(words);
            }
            Key::Erase => {
                let mut words = self.words.clone();
                self.typing = words.pop().is_some();
                self.look_for(words);
            }
            Key::Escape => {
                self.typing = false;
                self.look_for(String::new());
            }
            Key::Enter => self.typing = false,
            _ => {}
        }
    }

    fn look_for(&mut self, words: String) {
        self.words = words;
        (self.chosen, self.from) = (0, 0);
    }

    /// Keeps the view within the failures and running tasks that there are. `page`: number of running tasks that are
    /// seen at once.
    pub fn keep_within(&mut self, failures: usize, running: usize, page: usize) {
        self.chosen = self.chosen.min(failures.saturating_sub(1));
        self.from = self.from.min(running.saturating_sub(page.max(1)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(view: &mut View, keys: &[Key]) -> Vec<Asked> {
        keys.iter().map(|&key| view.press(key, 5)).collect()
    }

    #[test]
    fn failures_are_chosen_and_running_tasks_scrolled_within_bounds() {
        let mut view = View::default();
        press(&mut view, &[Key::Down, Key::Letter('j'), Key::Up, Key::PageDown, Key::Letter('f')]);
        assert_eq!((view.chosen, view.from), (1, 10));
        view.keep_within(1, 12, 5);
        assert_eq!((view.chosen, view.from), (0, 7), "the last page is full");
        press(&mut view, &[Key::PageUp]);
        assert_eq!(view.from, 2);
        press(&mut view, &[Key::PageUp, Key::Up]);
        assert_eq!(view, View::default());
        press(&mut view, &[Key::End]);
        view.keep_within(0, 0, 0);
        assert_eq!(view, View::default());
    }

    #[test]
    fn words_are_typed_and_keys_are_letters_meanwhile() {
        let mut view = View { chosen: 3, from: 9, ..View::default() };
        let keys = ['/', 'q', 'j', 'x'].map(Key::Letter);
        assert_eq!(press(&mut view, &keys), [Asked::Nothing; 4]);
        assert_eq!((view.words.as_str(), view.typing, view.chosen, view.from), ("qjx", true, 0, 0));
        press(&mut view, &[Key::Erase, Key::Enter]);
        assert_eq!((view.words.as_str(), view.typing), ("qj", false));
        assert_eq!(press(&mut view, &[Key::Escape]), [Asked::Nothing], "it ends the search first");
        assert_eq!(view, View::default());
        assert_eq!(press(&mut view, &[Key::Escape]), [Asked::Leave]);
        press(&mut view, &[Key::Letter('/'), Key::Letter('a'), Key::Erase, Key::Erase]);
        assert_eq!(view, View::default(), "nothing is left to erase");
        press(&mut view, &[Key::Letter('/')]);
        assert_eq!(press(&mut view, &[Key::Interrupt]), [Asked::Leave]);
    }

    #[test]
    fn any_key_closes_the_help() {
        for key in [Key::Letter('q'), Key::Escape, Key::Letter('?'), Key::Down] {
            let mut view = View::default();
            press(&mut view, &[Key::Letter('?')]);
            assert!(view.help);
            assert_eq!(press(&mut view, &[key]), [Asked::Nothing]);
            assert_eq!(view, View::default());
        }
    }
}
