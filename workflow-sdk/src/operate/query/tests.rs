#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use workflow_engine::model::Timestamp;

use super::{Query, QueryErrorKind};

fn usual(text: &str) -> String {
    text.parse::<Query>().unwrap().to_string()
}

#[test]
fn a_query_is_written_in_its_usual_form() {
    for text in [
        "",
        "status:failed workflow:check* queue:mail version:7 tag.customer:42 key:order-* gate:acct-42",
        "-status:succeeded is:paused -is:late is:unserved -is:blocked schedule:daily-report",
        "started:>-1h ended:<2026-11-01 started:>=2026-11-01T08:00:30Z ended:<=-90s",
        "duration:>5m duration:<=90s duration:>=0s duration:<2d duration:1h..2w",
        "started:2026-11-01..now ended:2026-11-01T00:00:00.000001Z..-2w",
        r#"tag."a b":"c \"d\" \\" tag.empty:"" key:"*" key:* key:"a b"*"#,
        "parent:01930000-0000-7000-8000-000000000000 worker:01930000-0000-4000-8000-000000000000",
    ] {
        assert_eq!(usual(text), text);
    }
    for (text, expected) in [
        ("  status:failed\t\n is:parked ", "status:failed status:parked"),
        ("key:a:b", r#"key:"a:b""#),
        (r#"workflow:"checkout""#, "workflow:checkout"),
        ("started:>-60m started:<2026-11-01T00:00Z", "started:>-1h started:<2026-11-01"),
        ("ended:>-0s", "ended:>now"),
        ("tag.a.b:1", "tag.a.b:1"),
        ("duration:>300s", "duration:>5m"),
    ] {
        assert_eq!(usual(text), expected);
    }
}

#[test]
fn a_mistake_is_named_with_its_place_and_the_way_out() {
    use QueryErrorKind as Kind;
    for (text, kind, at, says) in [
        ("status:faild", Kind::BadValue, 7, r#"did you mean "failed"?"#),
        ("is:late stattus:failed", Kind::UnknownName, 8, r#"did you mean "status"?"#),
        ("colour:red", Kind::UnknownName, 0, "use one of status, workflow"),
        ("checkout", Kind::NotAWord, 0, "write for example workflow:checkout"),
        ("tag:eu", Kind::NotAWord, 0, "write tag.NAME:VALUE"),
        ("tag.:eu", Kind::NotAWord, 4, "write for example tag.region:eu"),
        ("-", Kind::NotAWord, 1, "a word is NAME:VALUE"),
        ("error:\"\"", Kind::NoValue, 6, "has no value"),
        ("error:bank*", Kind::BadValue, 6, "takes no *"),
        ("step:charge", Kind::NotSupported, 0, "cannot search for step"),
        ("duration:30s", Kind::BadValue, 9, "write for example >5m"),
        ("duration:>5", Kind::BadValue, 9, "is not a comparison with a duration"),
        ("duration:>-5m", Kind::BadValue, 9, "write for example >5m"),
        ("-duration:>5m", Kind::NotNegatable, 0, "turn the comparison around"),
        ("input.customer.id:42", Kind::NotSupported, 0, "give the runs a tag"),
        ("is:blockd", Kind::BadValue, 3, r#"did you mean "blocked"?"#),
        ("is:pause", Kind::BadValue, 3, r#"did you mean "paused"?"#),
        ("key:", Kind::NoValue, 4, "the word has no value"),
        ("tag.a:", Kind::NoValue, 6, r#"the empty value of a tag is """#),
        ("status:fail*", Kind::BadValue, 7, "takes no *"),
        ("parent:7", Kind::BadValue, 7, "is not the id of a run"),
        ("worker:w-7c1", Kind::BadValue, 7, "is not the id of a worker"),
        ("started:-1h", Kind::BadValue, 8, "write for example >-1h"),
        ("started:>2026-02-29", Kind::BadValue, 8, "write for example >-1h"),
        ("started:>99999999w", Kind::BadValue, 8, "write for example >-1h"),
        ("-started:>-1h", Kind::NotNegatable, 0, "turn the comparison around"),
        (r#"key:"a"#, Kind::BadQuotes, 4, "is not closed"),
        (r#"key:"a"b"#, Kind::BadQuotes, 7, "in the middle of a value"),
        (r#"key:a"b"#, Kind::BadQuotes, 5, "in the middle of a value"),
        (r#"key:"a\b""#, Kind::BadQuotes, 6, "neither a quote"),
        ("key:a\0", Kind::BadValue, 5, "leave it out"),
    ] {
        let error = text.parse::<Query>().unwrap_err();
        assert_eq!((error.kind, error.byte), (kind, at), "{text:?}: {error}");
        assert!(error.to_string().contains(says), "{text:?}: {error}");
    }
    let long = "a".repeat(Query::MAX_BYTES + 1).parse::<Query>().unwrap_err();
    assert_eq!(long.kind, QueryErrorKind::TooLong);
    let many = "is:open ".repeat(Query::MAX_WORDS + 1).parse::<Query>().unwrap_err();
    assert_eq!((many.kind, many.byte), (QueryErrorKind::TooLong, 8 * Query::MAX_WORDS));
}

#[test]
fn a_column_counts_characters() {
    let error = "key:漢字 status:x".parse::<Query>().unwrap_err();
    assert_eq!((error.byte, error.column, error.word.as_str()), (18, 15, "status:x"));
}

#[test]
fn a_query_is_serialized_as_its_text() {
    let query: Query = "status:failed".parse().unwrap();
    let text = serde_json::to_string(&query).unwrap();
    assert_eq!(text, r#""status:failed""#);
    assert_eq!(serde_json::from_str::<Query>(&text).unwrap(), query);
    let error = serde_json::from_str::<Query>(r#""status:faild""#).unwrap_err();
    assert!(error.to_string().contains("did you mean"), "{error}");
}

#[test]
fn days_follow_the_calendar() {
    for (day, micros) in [
        ("1970-01-01", 0),
        ("2000-02-29", 951_782_400_000_000),
        ("2100-03-01", 4_107_542_400_000_000),
        ("2027-01-15T08:00:00.123456Z", 1_800_000_000_123_456),
    ] {
        let query: Query = format!("started:<{day}").parse().unwrap();
        let super::Test::Started(test) = &query.terms()[0].test else { unreachable!() };
        assert_eq!(test.bounds(Timestamp::from_micros(0)).1, Some(Timestamp::from_micros(micros)), "{day}");
    }
}

/// A word that is nearly always right.
fn word() -> impl Strategy<Value = String> {
    let text = prop_oneof![
        "[a-z0-9_.-]{1,12}",
        "[a-z]{0,4}\\*",
        "\\PC{1,8}".prop_map(|text| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))),
        "[a-z ]{0,6}".prop_map(|text| format!("\"{text}\"*")),
    ];
    let time = prop_oneof![
        Just("now".to_owned()),
        (0..5000_u32, "[smhdw]").prop_map(|(count, unit)| format!("-{count}{unit}")),
        (0..=9999_u32, 1..=12_u32, 1..=28_u32).prop_map(|(y, m, d)| format!("{y:04}-{m:02}-{d:02}")),
        (0..=9999_u32, 0..24_u32, 0..60_u32, 0..1_000_000_u32)
            .prop_map(|(y, h, m, us)| format!("{y:04}-02-28T{h:02}:{m:02}:09.{us:06}Z")),
    ];
    let time = (prop_oneof![Just(">"), Just(">="), Just("<"), Just("<=")], time.clone(), time).prop_map(
        |(operator, one, other)| {
            if other.len() % 2 == 0 { format!("{operator}{one}") } else { format!("{one}..{other}") }
        },
    );
    prop_oneof![
        ("-?(workflow|queue|version|gate|key):", text.clone()).prop_map(|(name, text)| name + &text),
        ("-?tag\\.[a-z.]{1,5}:", text).prop_map(|(name, text)| name + text.trim_end_matches('*')),
        "-?status:(pending|running|parked|succeeded|failed|canceled)",
        "-?is:(open|ended|paused|due|late|delayed|canceling|crashed|retried|child|gated|stuck|unserved|blocked|parked)",
        ("(started|ended):", time).prop_map(|(name, time)| name + &time),
        "duration:(>|>=|<|<=|[0-9]{1,3}s\\.\\.)[0-9]{1,3}[smhdw]",
    ]
}

proptest! {
    #[test]
    fn a_written_query_reads_as_the_same_query(words in prop::collection::vec(word(), 0..6)) {
        if let Ok(query) = words.join(" ").parse::<Query>() {
            let text = query.to_string();
            let again = text.parse::<Query>();
            prop_assert_eq!(again.as_ref().map_err(ToString::to_string), Ok(&query), "{}", text);
            prop_assert_eq!(query.to_string(), text);
        }
    }

    #[test]
    fn nearly_every_such_word_is_a_query(word in word()) {
        // The empty text is left: `tag.a:` without a value.
        let is_empty = word.ends_with(':');
        prop_assert!(is_empty || word.parse::<Query>().is_ok(), "{:?}: {:?}", word, word.parse::<Query>());
    }

    #[test]
    fn no_text_panics_and_each_mistake_lies_in_the_text(text in "\\PC{0,60}|[-a-z:.\"\\\\* <>=0-9é]{0,40}") {
        if let Err(error) = text.parse::<Query>() {
            prop_assert!(error.byte <= text.len() && text.is_char_boundary(error.byte));
            prop_assert_eq!(error.column, text[..error.byte].chars().count() + 1);
            prop_assert!(!error.message.is_empty() && !error.help.is_empty());
        }
    }
}
