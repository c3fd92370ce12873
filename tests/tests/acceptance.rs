//! The short form of every acceptance bullet.

use kindling_tests::Scale;
use kindling_tests::checks::CHECKS;
use tokio::sync::Mutex;

/// One at a time: two browsers that train are all that two cores carry.
static TURN: Mutex<()> = Mutex::const_new(());

async fn check(id: &str) {
    let _turn = TURN.lock().await;
    let check = CHECKS.iter().find(|check| check.id == id).expect("a bullet with this id");
    let measured = (check.measure)(Scale::Short).await.expect("can be measured");
    assert!(measured.pass, "{id}\n  expected: {}\n  measured: {}", check.expected, measured.words);
}

macro_rules! bullets {
    ($($name:ident: $id:literal,)*) => {
        const TESTED: &[&str] = &[$($id),*];
        $(#[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            check($id).await;
        })*
    };
}

bullets! {
    a_clone: "A-clone",
    a_digits: "A-digits",
    a_webgpu: "A-webgpu",
    a_lone: "A-lone",
    a_killed: "A-killed",
    a_frozen: "A-frozen",
    a_reload: "A-reload",
    a_twin: "A-twin",
    a_stale: "A-stale",
    a_consent: "A-consent",
    a_runfile: "A-runfile",
    a_page: "A-page",
    a_versions: "A-versions",
    a_orphans: "A-orphans",
    m_fashion: "M-fashion",
    m_cnn: "M-cnn",
    m_native: "M-native",
    m_big: "M-big",
    m_loop: "M-loop",
    m_exchange: "M-exchange",
    m_apply: "M-apply",
    m_smooth: "M-smooth",
    m_memory: "M-memory",
    m_tools: "M-tools",
}

#[test]
fn every_bullet_is_tested() {
    assert_eq!(TESTED, CHECKS.iter().map(|check| check.id).collect::<Vec<_>>());
}
