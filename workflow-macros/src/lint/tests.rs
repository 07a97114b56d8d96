//! Which code the rules refuse and which they accept. `ui/fail` shows the messages in full.

use proc_macro2::TokenStream;
use quote::quote;

use super::*;
use crate::parse;

/// Returns the names of the rules that refuse the body, in the order of the code.
fn found(body: TokenStream) -> Vec<&'static str> {
    found_in(quote!(async fn checkout(ctx: &Ctx, input: HashMap<String, u64>) -> Result<()> { #body }))
}

fn found_in(function: TokenStream) -> Vec<&'static str> {
    let function = parse::function(function).unwrap();
    let named = |error: Error| {
        let message = error.to_string();
        assert!(!message.ends_with('.') && !message.contains('\n'), "{message}");
        let end =
            message.split("`#[workflow(allow(").nth(1).expect("the message names the option that allows the rule");
        Rule::ALL
            .into_iter()
            .map(Rule::name)
            .find(|name| end.starts_with(&format!("{name}))]`")))
            .expect("the option contains a known rule")
    };
    check(&function, &Allowed::default()).into_iter().map(named).collect()
}

fn rule_of(path: &str) -> Option<&'static str> {
    let segments: Vec<String> = path.split("::").map(str::to_owned).collect();
    Rule::for_path(&segments).map(Rule::name)
}

#[test]
fn a_path_is_recognized_by_its_end() {
    for (path, rule) in [
        ("std::time::SystemTime::now", "wall_clock"),
        ("time::SystemTime::now", "wall_clock"),
        ("SystemTime::now", "wall_clock"),
        ("Instant::now", "wall_clock"),
        ("tokio::time::Instant::now", "wall_clock"),
        ("Utc::now", "wall_clock"),
        ("chrono::offset::Local::now", "wall_clock"),
        ("jiff::Zoned::now", "wall_clock"),
        ("rand::random", "randomness"),
        ("rand::thread_rng", "randomness"),
        ("thread_rng", "randomness"),
        ("fastrand::u64", "randomness"),
        ("Uuid::new_v4", "randomness"),
        ("uuid::Uuid::now_v7", "randomness"),
        ("tokio::spawn", "spawn"),
        ("tokio::task::spawn_blocking", "spawn"),
        ("JoinSet::new", "spawn"),
        ("thread::spawn", "spawn"),
        ("tokio::time::sleep", "tokio_time"),
        ("tokio::time::timeout", "tokio_time"),
        ("thread::sleep", "blocking_sleep"),
        ("std::thread::sleep", "blocking_sleep"),
        ("std::process::id", "environment"),
        ("process::id", "environment"),
        ("std::process::Command::new", "spawn"),
        ("process::Command::new", "spawn"),
        ("tokio::process::Command::new", "spawn"),
        ("async_std::task::spawn", "spawn"),
        ("smol::spawn", "spawn"),
        ("smol::unblock", "spawn"),
        ("async_std::task::sleep", "tokio_time"),
        ("async_std::future::timeout", "tokio_time"),
        ("smol::Timer::after", "tokio_time"),
        ("Timer::after", "tokio_time"),
        ("async_io::Timer::interval", "tokio_time"),
        ("futures_timer::Delay::new", "tokio_time"),
        ("SystemTime::elapsed", "wall_clock"),
        ("Instant::elapsed", "wall_clock"),
        ("env::var", "environment"),
        ("std::env::args", "environment"),
        ("fs::read_to_string", "files"),
        ("tokio::fs::write", "files"),
        ("File::open", "files"),
        ("std::net::TcpStream::connect", "network"),
        ("tokio::net::UdpSocket::bind", "network"),
        ("reqwest::get", "network"),
        ("reqwest::blocking::Client::new", "network"),
    ] {
        assert_eq!(rule_of(path), Some(rule), "{path}");
    }
}

/// A false alarm costs more than a miss, because it fails a build without a reason.
#[test]
fn a_path_that_may_belong_to_the_author_is_accepted() {
    for path in [
        "now",
        "sleep",
        "spawn",
        "random",
        "rng",
        "get",
        "read",
        "time::sleep",
        "task::spawn",
        "clock::now",
        "ctx::now",
        "Clock::now",
        "Timestamp::now",
        "my::SystemTime::now",
        "my::time::SystemTime::now",
        "crane::chrono::Utc::now",
        "Uuid::new_v5",
        "Uuid::parse_str",
        "rand::rngs::StdRng::seed_from_u64",
        "fastrand::Rng::with_seed",
        "tokio::time::Duration::from_secs",
        "tokio::sync::oneshot::channel",
        "std::net::Ipv4Addr::new",
        "std::time::Duration::from_secs",
        "SystemTime::UNIX_EPOCH",
        "Command::new",
        "Delay::new",
        "future::timeout",
        "task::yield_now",
        "Client::new",
        "client::get",
        "reqwest::Url::parse",
        "reqwest::Method::GET",
        "std::env::consts::OS",
        "SystemTime",
        "",
    ] {
        assert_eq!(rule_of(path), None, "{path}");
    }
    assert_eq!(found(quote!(let now = crate::time::SystemTime::now(); self::fs::read(1); Self::env::var();)), [""; 0]);
}

#[test]
fn a_disallowed_function_is_found_in_any_expression() {
    assert_eq!(found(quote!(let at = SystemTime::now().elapsed();)), ["wall_clock"]);
    assert_eq!(found(quote!(let at = given.unwrap_or_else(Utc::now);)), ["wall_clock"]);
    assert_eq!(found(quote!(let at = UNIX_EPOCH.elapsed()?;)), ["wall_clock"]);
    assert_eq!(found(quote!(let at = std::time::SystemTime::UNIX_EPOCH.elapsed();)), ["wall_clock"]);
    assert_eq!(found(quote!(let at = crate::UNIX_EPOCH.elapsed(); started.elapsed(); UNIX_EPOCH + d)), [""; 0]);
    assert_eq!(found(quote!(items.map(|_| fastrand::u64(..)).collect())), ["randomness"]);
    assert_eq!(
        found(quote!(if a {
            loop {
                match b {
                    _ => return f(&[fastrand::u8(..)]),
                }
            }
        })),
        ["randomness"]
    );
    assert_eq!(found(quote!(async { tokio::time::sleep(d).await }.await)), ["tokio_time"]);
    assert_eq!(found(quote!(::std::thread::sleep(d); rand::random::<u8>())), ["blocking_sleep", "randomness"]);
}

#[test]
fn a_use_in_the_body_resolves_a_name() {
    assert_eq!(found(quote!(use std::time::{Instant as Clock, SystemTime}; Clock::now();)), ["wall_clock"]);
    assert_eq!(
        found(quote!(use tokio::{self as rt, time::{self, sleep as nap}}; time::sleep(d); nap(d); rt::spawn(f))),
        ["tokio_time", "tokio_time", "spawn"]
    );
    assert_eq!(found(quote!({ use tokio::time::sleep; } sleep(d);)), [""; 0]);
    assert_eq!(found(quote!(use crate::simulated::SystemTime; SystemTime::now();)), [""; 0]);
    assert_eq!(found(quote!(SystemTime::now(); struct SystemTime;)), [""; 0]);
    assert_eq!(
        found(quote!({
            use tokio::select as choose;
            choose! { _ = a => {} }
        })),
        ["unbiased_select"]
    );
    assert_eq!(
        found(quote!({
            use futures::select;
            select! { _ = a => {} }
        })),
        ["unbiased_select"]
    );
    assert_eq!(
        found(quote!({
            use crossbeam_channel::select;
            select! { recv(r) -> m => {} }
        })),
        [""; 0]
    );
}

#[test]
fn effects_in_steps_are_accepted() {
    assert_eq!(
        found(quote! {
            ctx.step("a", || async { fastrand::u8(..); tokio::spawn(f).await }).await?;
            ctx.step("b", async || fs::read("x")).retry(Retry::none()).timeout(d).await?;
            ctx.step("c", move || { let at = Instant::now(); async move { at } });
            ctx.step("d", { let app = app.clone(); move || async { reqwest::get(app.url).await } });
            ctx.step("e", (&mut || Box::pin(async { thread::sleep(d) })));
            ctx.transaction("f", |tx| async move { env::var("X") });
            ctx.step("g", || hold()).compensate(|hold| async move { for x in HashMap::new() { Utc::now(); } });
            Ctx::step(ctx, "h", || async { tokio::select! { _ = a => {} } });
            helper(ctx, "retried three times", || async { reqwest::get("x").await });
            app.charge(&ctx, async || fastrand::u8(..));
            let eu = ctx.scope("eu");
            helper(&eu, || async { Utc::now() });
            helper(&eu.scope("north"), || async { Utc::now() });
            futures::try_join!(ctx.step("i", || async { Uuid::new_v4() }), ctx.sleep(d))?;
            tokio::select! { biased; r = ctx.step("j", || async { File::open("x") }), if ready => r?, else => {} }
        }),
        [""; 0]
    );
}

#[test]
fn code_around_a_step_belongs_to_the_workflow() {
    assert_eq!(found(quote!(ctx.step(format!("{}", fastrand::u8(..)), || f()))), ["randomness"]);
    assert_eq!(
        found(quote!(ctx.step("a", {
            let at = Instant::now();
            move || f(at)
        }))),
        ["wall_clock"]
    );
    assert_eq!(found(quote!(ctx.step("a", || f()).timeout(secs(fastrand::u64(..))))), ["randomness"]);
    assert_eq!(found(quote!(helper(ctx, Instant::now(), || f()))), ["wall_clock"]);
    assert_eq!(found(quote!(helper(app, || Instant::now()))), ["wall_clock"]);
    assert_eq!(found(quote!(ctx.step("a", || f()).await.map(|_| Utc::now()))), ["wall_clock"]);
    assert_eq!(
        found(quote! {
            ctx.map(items, 4, |ctx, item| async move {
                ctx.step("each", || async { reqwest::get(item) }).await?;
                Utc::now()
            })
        }),
        ["wall_clock"]
    );
}

#[test]
fn a_closure_that_only_steps_use_may_have_effects() {
    assert_eq!(found(quote!(let mut body = async || fs::read("x"); ctx.step("a", &mut body).await?;)), [""; 0]);
    assert_eq!(
        found(quote! {
            let work = |n| async move { tokio::time::sleep(n).await };
            let flaky = async || work(2).await;
            ctx.step("a", || work(1)).await?;
            ctx.step("b", flaky).await?;
        }),
        [""; 0]
    );
    assert_eq!(found(quote!(let work = || fs::read("x"); ctx.step("a", || work()).await?; work();)), ["files"]);
    assert_eq!(found(quote!(let work = || fs::read("x"); let two = || work(); two();)), ["files"]);
    assert_eq!(found(quote!(let unused = || fs::read("x");)), ["files"]);
    assert_eq!(found(quote!(let a = || { b(); Utc::now() }; let b = || a();)), [""; 0], "the search ends");
}

#[test]
fn macros_with_expressions_are_checked() {
    assert_eq!(found(quote!(println!("{} {x}", Utc::now(), x = fastrand::u8(..));)), ["wall_clock", "randomness"]);
    assert_eq!(found(quote!(vec![fastrand::u8(..); 4])), ["randomness"]);
    assert_eq!(found(quote!(futures::join!(a, tokio::time::sleep(d)))), ["tokio_time"]);
    assert_eq!(found(quote!(stringify!(Utc::now());)), [""; 0]);
    assert_eq!(
        found(quote!(json!({ "at": x }); info!(at = ?x, "text"); macro_rules! m { () => { Utc::now() } })),
        [""; 0]
    );
}

#[test]
fn a_select_must_be_biased() {
    assert_eq!(found(quote!(tokio::select! { a = f => {}, else => {} })), ["unbiased_select"]);
    assert_eq!(
        found(quote!(tokio::select! { biased; a = f => {} b = g, if Utc::now() > t => { (c)() } })),
        ["wall_clock"]
    );
    assert_eq!(found(quote!(select! { biased; a = fs::read("x") => fastrand::u8(..), })), ["files", "randomness"]);
    assert_eq!(
        found(quote!(futures::select! { a = f => {}, complete => {}, default => Utc::now() })),
        ["unbiased_select", "wall_clock"]
    );
    assert_eq!(found(quote!(futures::select_biased! { a = f => {}, default => fs::read("x") })), ["files"]);
    assert_eq!(
        found(quote!(crossbeam_channel::select! { recv(r) -> m => {} } crate::select! {} select(a, b).await)),
        [""; 0]
    );
    for join in [quote!(tokio::join!(a, Utc::now())), quote!(tokio::try_join!(a, Utc::now()))] {
        assert_eq!(found(join), ["unbiased_select", "wall_clock"]);
    }
    assert_eq!(found(quote!(tokio::join!(biased; a, Utc::now()); futures::try_join!(a, b))), ["wall_clock"]);
    // The input has no valid branch, but it does not begin with `biased;` either.
    assert_eq!(found(quote!(tokio::select! { not a branch })), ["unbiased_select"]);
}

#[test]
fn an_iteration_over_a_hash_map_is_refused() {
    for body in [
        quote!(let m = HashMap::new(); for x in m {}),
        quote!(let mut m = std::collections::HashMap::with_capacity(1); for x in &mut m {}),
        quote!(let m: HashMap<_, _> = f(); for x in &m {}),
        quote!(let m: Result<u8> = f(); let s = HashSet::from([1]); s.iter().for_each(g);),
        quote!(let m = f().collect::<HashMap<_, _>>(); m.keys().next();),
        quote!(let m = f().collect::<Result<HashMap<_, _>>>()?; m.values().next();),
        quote!(let m; m = HashMap::default(); m.drain().next();),
        quote!(let m = HashMap::new(); let n = m.clone(); n.into_values().map(f).collect()),
        quote!(HashSet::from_iter(f()).into_iter().next();),
        quote!(for x in f().collect::<HashSet<_>>() {}),
        quote!(for (k, v) in &input {}),
        quote!(let v: Vec<_> = input.into_iter().collect(); f(v);),
        quote!(let x: f64 = input.values().sum::<f64>();),
        quote!(let f = |m: &HashMap<u8, u8>| m.iter().next();),
        quote!(ctx.map(input, 10, |ctx, (account, cents)| async { pay(account, cents) }).await?;),
        quote!(let m = HashMap::new(); futures::future::join_all(m).await;),
        quote!(let m = HashSet::from([1]); let s = stream::iter(m.clone());),
    ] {
        assert_eq!(found(body.clone()), ["map_order"], "{body}");
    }
}

#[test]
fn other_uses_of_hash_maps_are_accepted() {
    for body in [
        quote!(let m = HashMap::new(); m.insert(1, 2); m.get(&1); m.len(); m.contains_key(&1)),
        quote!(let m = HashMap::new(); let m = sorted(m); for x in m {}),
        quote!(let m = HashMap::new(); f(|m| m.iter().next()); match x { m => m.iter().next() };),
        quote!(let m = HashMap::new(); if let Some(m) = x { for y in m {} } for m in x { m.iter().next(); }),
        quote!(let m = HashMap::new(); let (m, n) = f(); for x in m {}),
        quote!({ let m = HashMap::new(); } for x in m {}),
        quote!(let m: HashMap<u8, u8, Fixed> = f(); for x in m {}),
        quote!(let m: crate::HashMap<u8, u8> = f(); for x in m {}),
        quote!(for x in crate::HashMap::new() {}),
        quote!({
            use crate::fixed::HashMap;
            for x in HashMap::new() {}
        }),
        quote!(let m: BTreeMap<_, _> = HashMap::from(f()).into_iter().collect(); for x in m {}),
        quote!(let m = input.into_iter().collect::<BTreeMap<_, _>>(); for x in m {}),
        quote!(let mut v: Vec<_> = input.iter().map(f).collect(); v.sort_by_key(|x| x.0); for x in v {}),
        quote!(for x in input.keys().sorted() {}),
        quote!(input.values().any(f); input.iter().filter(g).count(); input.values().sum::<u64>()),
        quote!(for x in vec.iter() {} for x in &input_rows {} (input.x).iter().next();),
    ] {
        assert_eq!(found(body.clone()), [""; 0], "{body}");
    }
}

#[test]
fn items_in_the_body_are_accepted_except_a_static_mut() {
    assert_eq!(
        found(quote! {
            static mut COUNT: u64 = 0;
            static FINE: u64 = 0;
            fn helper() { SystemTime::now(); static mut INNER: u64 = 0; for x in HashMap::new() {} }
            impl X { fn now() { Utc::now(); } }
            const X: u64 = fastrand::u8(..);
        }),
        ["static_mut", "static_mut"]
    );
}

#[test]
fn a_repeated_name_is_refused() {
    for body in [
        quote!(ctx.step("a", f).await?; ctx.step("a", g).await?;),
        quote!(ctx.step("a", f).await?; ctx.transaction("a", g).await?;),
        quote!(ctx.step("a", f).await?; ctx.compensate("a", g)?;),
        quote!(ctx.step("a", f).retry(r).await?; if b { ctx.step("a", g).timeout(d).await?; }),
        quote!(if b { ctx.step("a", f).await?; } ctx.step("a", g).await?;),
        quote!(if b { ctx.step("a", f).await?; } if c { ctx.step("a", g).await?; }),
        quote!(match x { A => ctx.step("a", f).await?, B => return Ok(()) } ctx.step("a", g).await?;),
        quote!(futures::try_join!(ctx.step("a", f), ctx.step("a", g))?),
        quote!(tokio::select! { biased; x = ctx.step("a", f) => x?, y = ctx.step("a", g) => y? }),
        quote!(let there = ctx.scope("there"); there.step("a", f).await?; there.step("a", g).await?;),
        quote!(book(&ctx.scope("a")).await?; book(&ctx.scope("a")).await?;),
        quote!(ctx.scope("x").step("a", f).await?; ctx.scope("y").step("a", f).await?; ctx.scope("x")),
        quote!(ctx.map(items, 4, |ctx, item| async move {
            ctx.step("a", f).await?;
            ctx.step("a", g).await
        })),
        quote!(for x in y {
            let each = ctx.scope(x);
            each.step("a", f).await?;
            each.step("a", g).await?;
        }),
        quote!(async { ctx.step("a", f).await }.await?; ctx.step("a", g).await?;),
        quote!(ctx.child(f, x).name("a").await?; ctx.child_by_name("g", y).queue("q").name("a").detach().await?;),
        quote!(ctx.step("a", f).await?; ctx.child(g, x).name("a").await?;),
    ] {
        assert_eq!(found(body.clone()), ["repeated_name"], "{body}");
    }
}

#[test]
fn other_uses_of_one_name_are_accepted() {
    for body in [
        quote!(ctx.step("a", f).await?; ctx.step("b", g).await?; ctx.step(name, f).await?; ctx.step(name, f).await?;),
        quote!(if b {
            ctx.step("a", f).await?
        } else if c {
            ctx.step("a", g).await?
        } else {
            ctx.step("a", h).await?
        }),
        quote!(match x {
            A => ctx.step("a", f).await?,
            B => ctx.step("a", g).await?,
        }),
        quote!(if b { return ctx.step("a", f).await; } ctx.step("a", g).await),
        quote!(if b { ctx.step("a", f).await?; return Ok(()); } ctx.step("a", g).await),
        quote!(if b { ctx.step("a", f).await?; anyhow::bail!("no"); } ctx.step("a", g).await),
        quote!(let Some(x) = y else { return ctx.step("a", f).await; }; ctx.step("a", g).await),
        quote!(match x { A => return ctx.step("a", f).await, B => {} } ctx.step("a", g).await),
        quote!(for x in y { ctx.step("a", f).await?; ctx.step("a", g).await?; } ctx.step("a", h).await),
        quote!(loop { ctx.step("a", f).await?; ctx.sleep(d).await?; } while b { ctx.step("a", f).await?; }),
        quote!(ctx.race(x.iter().map(|m| ctx.step("a", f))).await?; ctx.race(y.iter().map(|m| ctx.step("a", f))).await),
        quote!(ctx.step("a", f).await?; ctx.map(x, 4, |ctx, y| async move { ctx.step("a", f).await }).await),
        quote!(ctx.step("a", f).await?; let ctx = ctx.scope("b"); ctx.step("a", g).await),
        quote!(ctx.step("a", f).await?; ctx.scope("a").step("a", g).await?; ctx.scope("b").step("a", g).await),
        quote!(tokio::select! { biased; x = p => ctx.step("a", f).await?, y = q => ctx.step("a", g).await? }),
        quote!(ctx.signal("a").await?; ctx.signal("a").await?; ctx.publish("b", x)?; ctx.publish("b", y)?;),
        quote!(ctx.child(f, x).await?; ctx.child(f, y).await?; ctx.child(f, x).name("a").await?; thread.name("a");),
        quote!(ctx.child(f, x).name("a").await?; ctx.scope("b").child(f, x).name("a").await?;),
        quote!(ctx.step("a", f).await?; grid.step("a"); fn other(ctx: &Ctx) { ctx.step("a", f) }),
    ] {
        assert_eq!(found(body.clone()), [""; 0], "{body}");
    }
}

#[test]
fn an_allowed_rule_is_not_applied() {
    let function = |body| parse::function(quote!(async fn checkout(ctx: &Ctx) -> Result<()> { #body })).unwrap();
    let mut allowed = Allowed::default();
    allowed.insert(Rule::WallClock);
    let errors = check(&function(quote!(Utc::now(); fs::read("x"); static mut X: u8 = 0;)), &allowed);
    assert_eq!(errors.len(), 2);
    let errors = check(&function(quote!(Utc::now(); fs::read("x"); static mut X: u8 = 0;)), &Allowed::all());
    assert!(errors.is_empty());
}

#[test]
fn a_body_that_does_not_parse_is_left_to_the_compiler() {
    assert_eq!(found(quote!(let x = ; Utc::now();)), [""; 0]);
    assert_eq!(found_in(quote!(async fn checkout() -> Result<()> = Utc::now();)), [""; 0]);
}

#[test]
fn the_documentation_lists_each_rule() {
    let macro_docs = include_str!("../lib.rs");
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/guide/determinism.md")).unwrap();
    for rule in Rule::ALL {
        assert!(macro_docs.contains(&format!("/// | `{}` | ", rule.name())), "{rule:?} in lib.rs");
        assert!(page.contains(&format!("\n| `{}` | ", rule.name())), "{rule:?} in docs/guide/determinism.md");
        for group in rule.functions() {
            let krate = group.module.split("::").next().unwrap();
            assert!(page.contains(krate), "{krate} of {rule:?} in docs/guide/determinism.md");
        }
    }
}
