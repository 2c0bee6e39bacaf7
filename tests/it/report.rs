//! Pages about programs: well-formed, complete in themselves, the same each time, and shown as they should be by a browser where there is one.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use iverson::report::{Options, html};
use iverson::tensor::{Csr, Inputs, Value};
use iverson::{Function, Mode, Request, Style};
use roxmltree::{Document, Node, ParsingOptions};

use crate::support::compile;

/// Attention of one query, and a convolution, beside programs of files.
const ATTENTION: &str = "\
# One query attends to keys K and values V.
param q : [d] real
param K : [n, d] real
param V : [n, p] real
assume n >= 1
let s = gen i < n. (sum j < d. K[i, j] * q[j]) / sqrt(d)
let e = gen i < n. exp(s[i] - (max k < n. s[k]))
let z = sum i < n. e[i]
sum k < p. ((sum i < n. e[i] * V[i, k]) / z)^2
";

/// The texts of a directory's programs that are sound, by file.
fn programs(directory: &str) -> Vec<(String, String)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory);
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(directory).expect("there are programs").map(|entry| entry.expect("a file").path()).collect();
    paths.sort();
    let name = |path: &Path| path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let programs = paths.iter().filter(|path| path.extension().is_some_and(|e| e == "iv"));
    let programs = programs.map(|path| (name(path), std::fs::read_to_string(path).expect("a program is text")));
    programs.filter(|(_, text)| Function::parse(text).is_ok()).collect()
}

fn file(path: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).expect("there is such a program")
}

/// The adjoint by all parameters, as the rules give it.
fn adjoint(function: &Function) -> Request {
    let wrt: Vec<&str> = function.tensor_ssa().signature.params.values().map(|p| p.name.as_str()).collect();
    Request::new(Mode::Adjoint, &wrt).raw()
}

fn page(title: &str, text: &str, derivative: Option<Request>) -> String {
    let options = Options { title: title.to_owned(), text: Some(text.to_owned()), derivative, ..Options::default() };
    html(&compile(text), &options).unwrap_or_else(|error| panic!("{title}: {error}"))
}

fn parsed<'a>(what: &str, page: &'a str) -> Document<'a> {
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    Document::parse_with_options(page, options).unwrap_or_else(|error| panic!("{what} is not well-formed: {error}"))
}

fn elements<'a>(document: &'a Document<'a>, name: &'a str) -> impl Iterator<Item = Node<'a, 'a>> {
    document.descendants().filter(move |node| node.has_tag_name(name))
}

/// All the text in an element.
fn text_of(node: Node<'_, '_>) -> String {
    node.descendants().filter(|node| node.is_text()).filter_map(|node| node.text()).collect()
}

/// How many elements stand inside of each other.
fn depth(document: &Document<'_>) -> usize {
    document.descendants().map(|node| node.ancestors().count()).max().unwrap_or(0)
}

/// Complains about elements that are none of MathML Core's, or have too few or too many children.
fn check_mathml(what: &str, math: Node<'_, '_>) {
    for node in math.descendants().filter(Node::is_element) {
        let children = node.children().filter(Node::is_element).count();
        let right = match node.tag_name().name() {
            "math" | "mrow" | "msqrt" | "mtable" | "mtr" | "mtd" => true,
            "mi" | "mn" | "mo" | "mtext" => children == 0 && !text_of(node).is_empty(),
            "mspace" => children == 0,
            "mfrac" | "mroot" | "msub" | "msup" | "munder" => children == 2,
            other => panic!("{what}: <{other}> is not used"),
        };
        assert!(right, "{what}: {:?} with {children} children", node.tag_name());
    }
}

/// Complains about a page that is not accessible or not complete in itself.
fn check_page(what: &str, page: &str) {
    let document = parsed(what, page);
    let root = document.root_element();
    assert_eq!((root.tag_name().name(), root.attribute("lang")), ("html", Some("en")), "{what}");
    assert_eq!((elements(&document, "h1").count(), elements(&document, "title").count() > 0), (1, true), "{what}");
    let ids: Vec<&str> = document.descendants().filter_map(|node| node.attribute("id")).collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "{what}: an id twice");
    for link in elements(&document, "a") {
        let target = link.attribute("href").and_then(|href| href.strip_prefix('#'));
        assert!(target.is_some_and(|target| ids.contains(&target)), "{what}: {link:?} leads nowhere");
    }
    for picture in elements(&document, "svg") {
        let title = picture.children().find(Node::is_element).filter(|node| node.has_tag_name("title"));
        assert!(title.is_some_and(|title| !text_of(title).is_empty()), "{what}: a picture without a title");
    }
    // Nothing is loaded and nothing runs.
    for node in document.descendants().filter(Node::is_element) {
        let name = node.tag_name().name();
        assert!(
            !matches!(name, "script" | "link" | "img" | "iframe" | "object" | "embed" | "image" | "use"),
            "{what}: <{name}>"
        );
        for attribute in node.attributes() {
            assert!(!attribute.name().starts_with("on") && attribute.name() != "src", "{what}: {attribute:?}");
            assert!(!attribute.value().contains("://"), "{what}: {attribute:?}");
        }
    }
    assert!(
        elements(&document, "style")
            .all(|style| !text_of(style).contains("url(") && !text_of(style).contains("@import"))
    );
    elements(&document, "math").for_each(|math| check_mathml(what, math));
    // A parser of HTML takes no more than 512.
    assert!(depth(&document) < 200, "{what} is {} deep", depth(&document));
    assert!(page.len() < 2_000_000, "{what} has {} bytes", page.len());
}

#[test]
fn pages_are_well_formed() {
    for (name, text) in programs("tests/programs").into_iter().chain(programs("examples/programs")) {
        let function = compile(&text);
        // There are no pages of programs with loops.
        if function.flow().is_none() {
            check_page(&name, &page(&name, &text, Some(adjoint(&function))));
        }
    }
    check_page("no derivative", &page("attention", ATTENTION, None));
}

#[test]
fn derivatives_of_all_kinds_have_pages() {
    let text = file("examples/programs/sparse_logistic_regression.iv");
    for mode in [Mode::Forward, Mode::Jacobian, Mode::Hessian, Mode::HessianProduct, Mode::GaussNewton] {
        let page = page("sparse", &text, Some(Request::new(mode, &["w"]).raw()));
        check_page("sparse", &page);
        assert!(!page.contains("id=\"derivation\""), "only an adjoint has a derivation");
    }
    let linear = "param A : csr [m, n] real\nparam x : [n] real\ngen i < m. sum j < n. A[i, j] * x[j]";
    check_page("transposed", &page("transposed", linear, Some(Request::new(Mode::Transpose, &["x"]))));
}

/// Every program, and its adjoint, in MathML: terms, and the derivation.
#[test]
fn mathml_is_well_formed() {
    let directories = ["tests/programs", "examples/programs", "tests/habits", "tests/expected"];
    for (name, text) in directories.into_iter().flat_map(programs) {
        let function = compile(&text);
        let mathml = function.term().expect("a term").print(Style::MathMl);
        check_mathml(&name, parsed(&name, &mathml).root_element());
        // The derivation of a program is quadratic in its statements, and there is none of one with loops.
        let derivation = function.flow().is_none() && function.tensor_ssa().stmts.len() < 100;
        let request = Request { derivation, ..adjoint(&function) };
        let derived = function.derive(&request).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mathml = derived.function.term().expect("a term").print(Style::MathMl);
        check_mathml(&name, parsed(&name, &mathml).root_element());
        if let Some(derivation) = derived.derivation {
            let mathml = derivation.print(Style::MathMl);
            check_mathml(&name, parsed(&name, &mathml).root_element());
        }
    }
}

#[test]
fn mathml_of_derivatives() {
    let least_squares = file("examples/programs/least_squares.iv");
    let blur = file("examples/programs/deconvolution.iv");
    let springs = file("examples/programs/springs.iv");
    let sparse = file("examples/programs/sparse_logistic_regression.iv");
    let cases = [
        ("least squares by w", least_squares.as_str(), Mode::Gradient, vec!["w"]),
        ("deconvolution by x", &blur, Mode::Gradient, vec!["x"]),
        ("springs by u", &springs, Mode::Gradient, vec!["u"]),
        ("sparse logistic regression by X", &sparse, Mode::Gradient, vec!["X"]),
        ("attention by V", ATTENTION, Mode::Gradient, vec!["V"]),
        ("powers", "param x : [n] real\nsum i < n. (x[i] / n)^3 * 1e-7 + cbrt(x[i])", Mode::Gradient, vec!["x"]),
    ];
    let mut all = String::new();
    for (name, text, mode, wrt) in cases {
        let request = Request::new(mode, &wrt);
        let derived = compile(text).derive(&request).unwrap_or_else(|error| panic!("{name}: {error}"));
        let term = derived.function.term().expect("a term");
        all += &format!("{name}\n{}{}\n", term.print(Style::Unicode), term.print(Style::MathMl));
    }
    insta::assert_snapshot!(all);
}

/// Texts show as themselves, wherever they come from.
#[test]
fn texts_are_escaped() {
    let evil = "</pre><script>alert('1')</script> & \"quoted\" ]]> <!-- \u{202e} \u{1b}[0m";
    let text =
        format!("# {evil}\nparam x' : [n] real\nparam y : [n] real\nsum i < n. [y[i] < 1 and x'[i] > 0] * x'[i]\n");
    let page = page(evil, &text, Some(Request::new(Mode::Gradient, &["x'"])));
    check_page("escaped", &page);
    let document = parsed("escaped", &page);
    let shown = evil.replace('\u{202e}', "\\u{202e}").replace('\u{1b}', "\u{fffd}");
    let heading = elements(&document, "h1").next().expect("a heading");
    assert_eq!(text_of(heading), shown);
    let written = elements(&document, "pre").next().expect("the program");
    assert_eq!(text_of(written), text.replace(evil, &shown));
    assert_eq!(elements(&document, "script").count(), 0);
}

#[test]
fn pages_are_the_same_each_time() {
    let text = file("examples/programs/sparse_logistic_regression.iv");
    let request = || Some(Request::new(Mode::Gradient, &["w"]));
    let first = page("the same", &text, request());
    assert_eq!(first, page("the same", &text, request()));
    assert!(first.contains("id=\"derivation\"") && first.contains("Theorem 6.35"));
}

/// What is long is cut, and says so.
#[test]
fn long_programs_are_cut() {
    let lines: String = (1..700).map(|k| format!("let y{k} = gen i < n. sin(y{}[i])\n", k - 1)).collect();
    let text = format!("param x : [n] real\nlet y0 = gen i < n. 2 * x[i]\n{lines}sum i < n. y699[i]\n");
    let page = page("long", &text, Some(Request::new(Mode::Gradient, &["x"]).raw()));
    check_page("long", &page);
    let texts: Vec<String> = elements(&parsed("long", &page), "p").map(text_of).collect();
    for cut in
        ["Cut here: the text has", "the 60 nearest to the results are shown", "steps, of which", "Not typeset here"]
    {
        assert!(texts.iter().any(|text| text.contains(cut)), "nothing says: {cut}");
    }
    let deep = format!("param x : real\n{}x{}", "sqrt(1 + ".repeat(190), ")".repeat(190));
    check_page("deep", &self::page("deep", &deep, None));
}

/// Patterns of the inputs given, and those that follow.
#[test]
fn patterns_of_inputs_are_shown() {
    let function = compile("param A : csr [m, n] real\nparam x : [n] real\ngen i < m. sum j < n. A[i, j] * x[j]^2");
    let n = 1000;
    let data = (0..n).collect::<Vec<u32>>();
    let diagonal =
        Csr::new(n as usize, n as usize, (0..=n as usize).collect(), data, vec![1.0; n as usize]).expect("a matrix");
    let mut inputs = Inputs::new();
    inputs.value("A", diagonal).value("x", Value::vector(vec![1.0; n as usize]));
    let derivative = Some(Request::new(Mode::Jacobian, &["x"]));
    let options =
        Options { title: "diagonal".to_owned(), derivative, inputs: Some(inputs.clone()), ..Options::default() };
    let page = html(&function, &options).expect("a page");
    check_page("diagonal", &page);
    let document = parsed("diagonal", &page);
    let captions: Vec<String> = elements(&document, "figcaption").map(text_of).collect();
    let expected = "1000 × 1000, 1000 entries (0.1 %); a cell is 16 × 16 places";
    assert_eq!(captions, [format!("A: {expected}"), format!("jacobian_x: {expected}")]);
    // Inputs of another program are refused.
    inputs.value("x", Value::vector(vec![1.0; 3]));
    let options = Options { inputs: Some(inputs), ..options };
    assert!(matches!(html(&function, &options), Err(iverson::Error::Data { .. })));
}

/// The browser to test with, if there is one.
fn chromium() -> Option<PathBuf> {
    let given = std::env::var_os("IVERSON_CHROMIUM").map(PathBuf::from);
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&paths).map(|directory| directory.join("chromium"));
    given.into_iter().chain(found).find(|path| path.is_file())
}

/// What a browser makes of a page: its document, and what it says of errors.
fn browse(browser: &Path, directory: &Path, page: &str) -> (String, String) {
    let file = directory.join("page.html");
    std::fs::write(&file, page).expect("the page is written");
    let output = Command::new(browser)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"])
        .args(["--disable-background-networking", "--disable-component-update", "--window-size=1280,900"])
        .args(["--enable-logging=stderr", "--dump-dom"])
        .arg(format!("--user-data-dir={}", directory.join("user").display()))
        .arg(format!("file://{}", file.display()))
        .output()
        .expect("the browser runs");
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    (out, err)
}

/// Measures a page in a window 1280 pixels wide, with everything open: by how much it is wider than the window, and how many formulas have no
/// extent.
const MEASURE: &str = "<script>
document.querySelectorAll('details').forEach(d => d.open = true);
const empty = [...document.querySelectorAll('math')].filter(m => m.getBoundingClientRect().width < 1).length;
const page = document.documentElement;
document.body.setAttribute('data-found', (page.scrollWidth - page.clientWidth) + ' ' + empty);
</script></body>";

#[test]
fn a_browser_shows_pages() {
    let Some(browser) = chromium() else {
        println!("skipped: there is no chromium; IVERSON_CHROMIUM names one");
        return;
    };
    let directory = tempfile::tempdir().expect("a directory");
    let cases = [
        ("least squares", file("examples/programs/least_squares.iv"), Mode::Gradient, "w"),
        ("logistic regression", file("examples/programs/logistic_regression.iv"), Mode::Gradient, "w"),
        ("deconvolution", file("examples/programs/deconvolution.iv"), Mode::Gradient, "x"),
        ("attention", ATTENTION.to_owned(), Mode::Gradient, "q"),
        ("sparse logistic regression", file("examples/programs/sparse_logistic_regression.iv"), Mode::Hessian, "w"),
    ];
    for (name, text, mode, wrt) in cases {
        let page = page(name, &text, Some(Request::new(mode, &[wrt]).raw()));
        let (document, errors) = browse(&browser, directory.path(), &page);
        assert!(document.contains(&format!("<h1>{name}</h1>")), "{name}: {errors}");
        assert!(!errors.contains("CONSOLE"), "{name}: {errors}");
        // The policy of the page lets no script run.
        let measured = page.replace("Content-Security-Policy", "x").replace("</body>", MEASURE);
        let (document, _) = browse(&browser, directory.path(), &measured);
        let found = document.split("data-found=\"").nth(1).and_then(|rest| rest.split('"').next());
        assert_eq!(found, Some("0 0"), "{name}: pixels beyond the window, formulas without extent");
    }
}
