//! Completions: the scripts for shells, and the names of a database for which these scripts ask.

use std::time::Duration;

use clap::{Arg, ArgAction, Command};
use clap_complete::Shell;
use workflow_sdk::operate::{ListRuns, ListSchedules, Operate, OperateError};

use crate::arguments::Global;
use crate::output::Output;
use crate::target::{SetOptions, Target};
use crate::{Exit, Failure};

/// How long a shell waits for names. Without them in this time it offers what the script knows.
const PATIENCE: Duration = Duration::from_secs(1);

/// The most names of one answer.
const MOST: u32 = 50;

/// The shortest part of an id by which runs are found. For a shorter one the newest runs are asked.
const SHORTEST_PART: usize = 6;

/// The options with names as values, for fish, whose scripts have a line for each option.
const OPTIONS: [&str; 2] = ["queue", "workflow"];

/// Asks this program, and goes on with the function of clap's script if there are no names. bash
/// takes a colon for the end of a word, so the part of the word before it is cut off.
const BASH: &str = r#"
_FUNCTION_names() {
    local name found line=${COMP_LINE:0:COMP_POINT}
    found=$("$1" completions --line="$line" 2>/dev/null)
    if [[ -z $found ]]; then
        _FUNCTION "$@"
        return
    fi
    local word=${line##*[[:space:]]}
    local before=${word%"$2"}
    COMPREPLY=()
    while IFS= read -r name; do
        printf -v name '%q' "${name#"$before"}"
        COMPREPLY+=("$name")
    done <<<"$found"
}
"#;

/// Asks this program. A failure lets the function of clap's script go on.
const ZSH: &str = r#"_NAME_names() {
    local -a names
    names=("${(@f)$("$words[1]" completions --line="${(j: :)words[1,CURRENT]}" 2>/dev/null)}")
    [[ -n "$names[1]" ]] || return 1
    compadd -a names
}

"#;

/// Asks this program, beside the lines of clap's script.
const FISH: &str = r#"
function __fish_NAME_names
    command NAME completions --line=(commandline -cp | string collect) 2>/dev/null
end
complete -c NAME -a '(__fish_NAME_names)'
"#;

/// Returns the script that completes commands in this shell. In bash, zsh and fish it also asks
/// this program for the names in its database.
pub(crate) fn script(shell: Shell, command: &mut Command) -> String {
    let name = command.get_name().to_owned();
    let mut script = Vec::new();
    clap_complete::generate(shell, command, name.clone(), &mut script);
    let script = String::from_utf8_lossy(&script);
    let script = script.trim_end();
    // The name of the function as clap_complete makes it.
    let function = name.replace('-', "__");
    match shell {
        Shell::Bash => {
            let asking = BASH.replace("FUNCTION", &function);
            script.replace(&format!("complete -F _{function} "), &format!("complete -F _{function}_names ")) + &asking
        }
        Shell::Zsh => {
            let (asking, begin) = (ZSH.replace("NAME", &name), format!("_{name}() {{\n"));
            script.replacen(&begin, &format!("{asking}{begin}    _{name}_names && return 0\n"), 1)
        }
        Shell::Fish => {
            let asks = format!(" -f -a '(__fish_{name}_names)'");
            let has_names = |line: &str| OPTIONS.iter().any(|option| line.contains(&format!(" -l {option} ")));
            let add = |line: &str| if has_names(line) { format!("{line}{asks}\n") } else { format!("{line}\n") };
            script.lines().map(add).collect::<String>() + &FISH.replace("NAME", &name)
        }
        _ => script.to_owned(),
    }
}

/// Prints the names with which the last word of a line may go on, one per line. Prints nothing if
/// the line goes on with something else, or if the database does not answer: a shell in the middle
/// of a line has no place for an error.
pub(crate) fn answer(
    mut command: Command,
    line: &str,
    mut global: Global,
    options: SetOptions,
    output: &Output,
) -> Exit {
    command.build();
    let Asked { kind: Some(kind), word, to, schema, token } = read(&command, line) else { return Exit::Ok };
    global.to = to.or(global.to);
    global.token = token.or(global.token);
    global.schema = schema.unwrap_or(global.schema);
    global.timeout = PATIENCE;
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else { return Exit::Ok };
    let asking = async {
        let (operate, _) = Target::new(global, options).operate().await?;
        Ok::<_, Failure>(names(&*operate, kind, &word).await?)
    };
    let found = runtime.block_on(async { tokio::time::timeout(PATIENCE, asking).await });
    // A name server that does not answer must not hold the shell.
    runtime.shutdown_background();
    if let Ok(Ok(found)) = found
        && !found.is_empty()
    {
        // A shell that has gone on needs no names.
        let _ = output.line(found.join("\n"));
    }
    Exit::Ok
}

async fn names(operate: &dyn Operate, kind: Kind, word: &str) -> Result<Vec<String>, OperateError> {
    let mut names: Vec<String> = match kind {
        Kind::Run => {
            let runs = if word.len() < SHORTEST_PART {
                operate.runs(ListRuns::default().limit(MOST)).await?.items
            } else {
                operate.find_runs(word, MOST).await?
            };
            runs.into_iter().map(|run| run.id.to_string()).collect()
        }
        Kind::Workflow => operate.workflows().await?.into_iter().map(|workflow| workflow.name).collect(),
        Kind::Queue => operate.queues().await?.into_iter().map(|queue| queue.name).collect(),
        Kind::Schedule => {
            let page = operate.schedules(ListSchedules::new().limit(ListSchedules::MAX_LIMIT)).await?;
            page.items.into_iter().map(|schedule| schedule.name).collect()
        }
    };
    // A name with a line break would be two.
    names.retain(|name| name.starts_with(word) && !name.contains(char::is_control));
    names.truncate(MOST as usize);
    Ok(names)
}

/// The names that fit the place of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Run,
    Workflow,
    Queue,
    Schedule,
}

impl Kind {
    fn of(argument: &Arg) -> Option<Self> {
        match argument.get_id().as_str() {
            "run" | "runs" => Some(Self::Run),
            "workflow" => Some(Self::Workflow),
            "queue" => Some(Self::Queue),
            "schedule" => Some(Self::Schedule),
            _ => None,
        }
    }
}

/// The last word of a line, the names that fit its place, and the options that say where they are.
#[derive(Debug, Default)]
struct Asked {
    kind: Option<Kind>,
    word: String,
    to: Option<String>,
    schema: Option<String>,
    token: Option<String>,
}

impl Asked {
    fn keep(&mut self, option: &Arg, value: &str) {
        let kept = match option.get_id().as_str() {
            "to" => &mut self.to,
            "schema" => &mut self.schema,
            "token" => &mut self.token,
            _ => return,
        };
        *kept = Some(value.to_owned());
    }
}

/// Reads a line whose last word is to be completed, as the built command would.
fn read(command: &Command, line: &str) -> Asked {
    let mut words = split(line);
    let mut asked = Asked { word: words.pop().unwrap_or_default(), ..Asked::default() };
    let mut command = command;
    // The option whose value is next, and the values before the last word.
    let (mut open, mut values, mut has_ended) = (None, 0, false);
    for word in words.iter().skip(1) {
        if let Some(option) = open.take() {
            asked.keep(option, word);
        } else if !has_ended && word.len() > 1 && word.starts_with('-') {
            has_ended = word == "--";
            match find_option(command, word) {
                Some((option, Some(value))) => asked.keep(option, value),
                Some((option, None)) if !option.is_require_equals_set() => open = Some(option),
                _ => {}
            }
        } else if let Some(verb) = command.find_subcommand(word).filter(|_| values == 0) {
            command = verb;
        } else {
            values += 1;
        }
    }
    let is_option = open.is_none() && !has_ended && asked.word.starts_with('-');
    let argument = if is_option { None } else { open.or_else(|| find_positional(command, values)) };
    asked.kind = argument.and_then(Kind::of);
    asked
}

/// Returns the option with a value that a word names, and the value behind an equals sign.
fn find_option<'c, 'w>(command: &'c Command, word: &'w str) -> Option<(&'c Arg, Option<&'w str>)> {
    let (name, value) = word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
    let is_named = |option: &&Arg| match name.strip_prefix("--") {
        Some(long) => {
            option.get_long() == Some(long) || option.get_all_aliases().is_some_and(|all| all.contains(&long))
        }
        None => option.get_short().is_some_and(|short| name.chars().skip(1).eq([short])),
    };
    command.get_opts().find(is_named).map(|option| (option, value))
}

/// Returns the argument that stands behind this many values. The last one may take several.
fn find_positional(command: &Command, values: usize) -> Option<&Arg> {
    let last = command.get_positionals().last().filter(|last| matches!(last.get_action(), ArgAction::Append));
    command.get_positionals().nth(values).or(last)
}

/// Splits a line into words as shells do, and expands nothing. The last word may be empty.
fn split(line: &str) -> Vec<String> {
    let (mut words, mut word, mut is_begun) = (Vec::new(), String::new(), false);
    let mut quote = None;
    let mut characters = line.chars();
    while let Some(c) = characters.next() {
        match quote {
            None if c.is_whitespace() => {
                if is_begun {
                    words.push(std::mem::take(&mut word));
                }
                is_begun = false;
                continue;
            }
            None if c == '\'' || c == '"' => quote = Some(c),
            Some(open) if c == open => quote = None,
            None | Some('"') if c == '\\' => word.extend(characters.next()),
            _ => word.push(c),
        }
        is_begun = true;
    }
    words.push(word);
    words
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::arguments::Arguments;

    fn asked(line: &str) -> Asked {
        let mut command = Arguments::command().name("workflow").bin_name("workflow");
        command.build();
        read(&command, line)
    }

    #[test]
    fn a_line_is_split_as_shells_do() {
        assert_eq!(split(""), [""]);
        assert_eq!(split("a  b "), ["a", "b", ""]);
        assert_eq!(split(r#"a 'b "c' "d\" e" f\ g'h'"#), ["a", "b \"c", "d\" e", "f gh"]);
        assert_eq!(split("a '' \"open end"), ["a", "", "open end"]);
    }

    #[test]
    fn the_place_of_the_last_word_is_found() {
        let table = [
            ("workflow runs show ", Some(Kind::Run)),
            ("workflow runs show 01", Some(Kind::Run)),
            ("workflow runs show 01 ", None),
            ("workflow runs cancel 01 02", Some(Kind::Run)),
            ("workflow runs cancel --reason 'a b' ", Some(Kind::Run)),
            ("workflow runs cancel --reason ", None),
            ("workflow runs set-priority ", None),
            ("workflow runs set-priority high ", Some(Kind::Run)),
            ("workflow runs move-to ma", Some(Kind::Queue)),
            ("workflow runs move-to mail 01", Some(Kind::Run)),
            ("workflow runs start ", Some(Kind::Workflow)),
            ("workflow runs start doubled -i 1 --queue ma", Some(Kind::Queue)),
            ("workflow runs start doubled --input='{\"a\": 1}' --queue ", Some(Kind::Queue)),
            ("workflow runs start -- ", Some(Kind::Workflow)),
            ("workflow runs start --qu", None),
            ("workflow --json --to x.db -o ids queues pause ", Some(Kind::Queue)),
            ("workflow schedules pause ", Some(Kind::Schedule)),
            ("workflow schedules create new ", Some(Kind::Workflow)),
            ("workflow schedules update new --pause-on-failure ", None),
            ("workflow schedules update --pause-on-failure ", Some(Kind::Schedule)),
            ("workflow approvals approve ", Some(Kind::Run)),
            ("workflow approvals approve 01 ", None),
            ("workflow stats --workflow ", Some(Kind::Workflow)),
            ("workflow replay ", Some(Kind::Run)),
            ("workflow ru", None),
            ("workflow runs ", None),
            ("workflow nothing ", None),
            ("", None),
        ];
        for (line, kind) in table {
            assert_eq!(asked(line).kind, kind, "{line:?}");
        }
    }

    #[test]
    fn the_options_say_where_the_names_are() {
        let line = "workflow --to x.db runs show --token=s3 --schema own 'a b";
        let Asked { word, to, schema, token, .. } = asked(line);
        let options = [to, schema, token].map(Option::unwrap);
        assert_eq!((word.as_str(), options), ("a b", ["x.db", "own", "s3"].map(str::to_owned)));
    }

    #[test]
    fn the_scripts_ask_for_names() {
        let written = |shell| script(shell, &mut Arguments::command().name("my-app").bin_name("my-app"));
        let bash = written(Shell::Bash);
        assert!(bash.contains("complete -F _my__app_names -o ") && !bash.contains("complete -F _my__app -o "));
        assert!(bash.contains("_my__app() {\n") && bash.contains("_my__app_names() {\n"));
        let zsh = written(Shell::Zsh);
        assert!(zsh.starts_with("#compdef my-app\n"), "a script that zsh loads begins so");
        assert!(zsh.contains("_my-app() {\n    _my-app_names && return 0\n"), "{zsh}");
        let fish = written(Shell::Fish);
        assert!(fish.contains(" -l queue ") && fish.contains("function __fish_my-app_names\n"), "{fish}");
        let mut of_queue = fish.lines().filter(|line| line.contains(" -l queue "));
        assert!(of_queue.all(|line| line.ends_with(" -r -f -a '(__fish_my-app_names)'")), "{fish}");
        for shell in [Shell::Elvish, Shell::PowerShell] {
            assert!(!written(shell).contains("_names"));
        }
    }
}
