use std::io::Write as _;

use super::*;

/// The error of a file, or what it holds.
fn parse(extension: &str, bytes: &[u8]) -> std::result::Result<FileValue, String> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(format!("file.{extension}"));
    std::fs::write(&path, bytes).unwrap();
    read_value(&path).map_err(|e| match e {
        Error::Data { subject, message } => {
            let subject = subject.strip_prefix(&directory.path().display().to_string()).unwrap().to_string();
            format!("{}: {message}", &subject[1..])
        }
        other => panic!("not an error about data: {other:?}"),
    })
}

fn check_errors(extension: &str, table: &[(&[u8], &str)]) {
    for (bytes, expected) in table {
        let expected = format!("file.{extension}{expected}");
        let found = parse(extension, bytes);
        let shown: String = String::from_utf8_lossy(bytes).chars().take(200).collect();
        match found {
            Ok(value) => panic!("{shown}\n  expected {expected}\n  found    {value:?}"),
            Err(error) => {
                assert!(error.starts_with(&expected), "{shown}\n  expected {expected}\n  found    {error}");
            }
        }
    }
}

fn matrix(rows: usize, cols: usize, entries: &[(usize, usize, f64)]) -> FileValue {
    let columns = vec![entries.iter().map(|e| e.0).collect(), entries.iter().map(|e| e.1).collect()];
    let data: Vec<f64> = entries.iter().map(|e| e.2).collect();
    FileValue::Csr(Csr::from_coo(&Coo::from_unsorted(vec![rows, cols], columns, &data).unwrap()).unwrap())
}

fn relation(shape: &[usize], tuples: &[&[usize]]) -> FileValue {
    FileValue::Relation(Relation::from_tuples(shape, tuples).unwrap())
}

fn dense(shape: &[usize], data: &[f64]) -> FileValue {
    FileValue::Dense(Dense::new(shape, data.to_vec()).unwrap())
}

#[test]
fn mtx_reads_every_kind() {
    let table: Vec<(&str, FileValue)> = vec![
        (
            "%%MatrixMarket matrix coordinate real general\n% a comment\n\n3 4 2\n3 4 0\n\n1 1 -1.5e3\n",
            matrix(3, 4, &[(2, 3, 0.0), (0, 0, -1500.0)]),
        ),
        // No newline at the end, line ends of another system, capitals, blanks.
        (
            "%%matrixmarket MATRIX Coordinate Integer General\r\n 2  2 1 \r\n\t2 1  -7\r\n",
            matrix(2, 2, &[(1, 0, -7.0)]),
        ),
        ("%%MatrixMarket matrix coordinate real general\n0 0 0", matrix(0, 0, &[])),
        ("%%MatrixMarket matrix coordinate real general\n2 4294967296 1\n2 4294967296 1", {
            matrix(2, 1 << 32, &[(1, (1 << 32) - 1, 1.0)])
        }),
        (
            "%%MatrixMarket matrix coordinate real symmetric\n3 3 3\n1 1 1\n3 1 2\n2 2 3",
            matrix(3, 3, &[(0, 0, 1.0), (2, 0, 2.0), (0, 2, 2.0), (1, 1, 3.0)]),
        ),
        (
            "%%MatrixMarket matrix coordinate real skew-symmetric\n2 2 1\n2 1 5",
            matrix(2, 2, &[(1, 0, 5.0), (0, 1, -5.0)]),
        ),
        ("%%MatrixMarket matrix coordinate pattern general\n2 3 2\n2 3\n1 2", relation(&[2, 3], &[&[0, 1], &[1, 2]])),
        ("%%MatrixMarket matrix coordinate pattern symmetric\n3 3 2\n2 2\n3 1", {
            relation(&[3, 3], &[&[1, 1], &[2, 0], &[0, 2]])
        }),
        ("%%MatrixMarket matrix array real general\n2 3\n1\n2\n3\n4\n5\n6", dense(&[2, 3], &[1., 3., 5., 2., 4., 6.])),
        ("%%MatrixMarket matrix array real symmetric\n3 3\n1\n2\n3\n4\n5\n6", {
            dense(&[3, 3], &[1., 2., 3., 2., 4., 5., 3., 5., 6.])
        }),
        ("%%MatrixMarket matrix array integer skew-symmetric\n3 3\n1\n2\n3", {
            dense(&[3, 3], &[0., -1., -2., 1., 0., -3., 2., 3., 0.])
        }),
        ("%%MatrixMarket matrix array real general\n1099511627776 0\n", dense(&[1 << 40, 0], &[])),
        ("%%MatrixMarket matrix array real symmetric\n0 0\n", dense(&[0, 0], &[])),
    ];
    for (text, expected) in table {
        assert_eq!(parse("mtx", text.as_bytes()), Ok(expected), "{text}");
    }
}

#[test]
fn mtx_refuses_bad_files() {
    const REAL: &str = "%%MatrixMarket matrix coordinate real general\n";
    let real = |rest: &str| format!("{REAL}{rest}").into_bytes();
    let owned: Vec<(Vec<u8>, &str)> = vec![
        (real(""), ", line 1: the file ends before the line of sizes"),
        (real("% only\n% comments\n"), ", line 3: the file ends before the line of sizes"),
        (real("3 4\n"), ", line 2: expected rows, columns and the number of entries, found 2 numbers"),
        (real("3 4 1 1\n"), ", line 2: expected rows, columns and the number of entries, found 4 numbers"),
        (real("-3 4 1\n"), ", line 2: expected a length, found `-3`"),
        (real("3 4.0 1\n"), ", line 2: expected a length, found `4.0`"),
        (real("nan 4 1\n"), ", line 2: expected a length, found `nan`"),
        (real("3 18446744073709551615 1\n"), ", line 2: 18446744073709551615 is beyond the range of lengths"),
        (real("3 99999999999999999999 1\n"), ", line 2: expected a length, found `99999999999999999999`"),
        (real("3 4 1000000000000\n1 1 1\n"), ": the header claims 1000000000000 entries, the file has 1"),
        (real("1000000000000 1000000000000 0\n"), ": 1000000000000 rows with 0 entries are too many for csr"),
        (real("3 4294967297 0\n"), ": axis 1 has length 4294967297, the limit is 4294967296"),
        (real("3 4 2\n1 1 1\n"), ": the header claims 2 entries, the file has 1"),
        (real("3 4 1\n1 1 1\n2 2 2\n"), ", line 4: the header claims 1 entries, here is another one"),
        (real("3 4 1\n0 1 1\n"), ", line 3: a row counts from 1, found 0"),
        (real("3 4 1\n1 -1 1\n"), ", line 3: a column counts from 1, found -1"),
        (real("3 4 1\n4 1 1\n"), ", line 3: row 4 is beyond the length 3"),
        (real("3 4 1\n1 5 1\n"), ", line 3: column 5 is beyond the length 4"),
        (real("3 4 1\n1 99999999999999999999 1\n"), ", line 3: column 99999999999999999999 is beyond the length 4"),
        (real("3 4 1\nx 1 1\n"), ", line 3: expected a row, found `x`"),
        (real("3 4 1\nnan 1 1\n"), ", line 3: expected a row, found `nan`"),
        (real("3 4 1\n1.0 1 1\n"), ", line 3: expected a row, found `1.0`"),
        (real("3 4 1\n1\n"), ", line 3: expected 3 numbers, found 1"),
        (real("3 4 1\n1 1\n"), ", line 3: expected row, column and value, found no value"),
        (real("3 4 1\n1 1 1 1\n"), ", line 3: expected 3 numbers, found more"),
        (real("3 4 1\n1 1 one\n"), ", line 3: expected a number, found `one`"),
        (real("3 4 1\n1 1 1e999\n"), ", line 3: `1e999` is beyond the range of 64-bit floats"),
        (real("3 4 1\n1 1 0x10\n"), ", line 3: expected a number, found `0x10`"),
        (real("3 4 2\n% c\n1 1 1\n\n1 1 1\n"), ", line 6: the place (1, 1) is in line 4 already"),
        ([REAL.as_bytes(), b"3 4 1\n\xff 1 1\n"].concat(), ", line 3: this line is not UTF-8 text"),
        ([REAL.as_bytes(), b"3 4 1\n1 1 \0\n"].concat(), ", line 3: expected a number, found `\\0`"),
    ];
    let table: Vec<(&[u8], &str)> = owned.iter().map(|(bytes, e)| (bytes.as_slice(), *e)).collect();
    check_errors("mtx", &table);
    check_errors(
        "mtx",
        &[
            (b"", ": this file is empty"),
            (b"\n", ", line 1: expected `%%MatrixMarket matrix`"),
            (b"3 4 1\n1 1 1\n", ", line 1: expected `%%MatrixMarket matrix`"),
            (b"%%MatrixMarket vector coordinate real general\n", ", line 1: expected `%%MatrixMarket matrix`"),
            (b"%%MatrixMarket matrix coordinate real\n", ", line 1: expected `%%MatrixMarket matrix`"),
            (b"%%MatrixMarket matrix coordinate complex general\n1 1 0", ", line 1: expected a matrix of field"),
            (b"%%MatrixMarket matrix coordinate real hermitian\n1 1 0", ", line 1: expected the symmetry"),
            (b"%%MatrixMarket matrix coordinate pattern skew-symmetric\n1 1 0", ", line 1: a pattern has no values"),
            (b"%%MatrixMarket matrix array pattern general\n1 1", ", line 1: a pattern has no values"),
            (
                b"%%MatrixMarket matrix list real general\n1 1",
                ", line 1: expected `coordinate` or `array`, found `list`",
            ),
            (b"%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 1 1", ", line 3: a pattern has no values"),
            (b"%%MatrixMarket matrix coordinate integer general\n2 2 1\n1 1 1.5", ", line 3: expected an integer"),
            (
                b"%%MatrixMarket matrix coordinate integer general\n2 2 1\n1 1 9007199254740993",
                ", line 3: 9007199254740993 has no exact value",
            ),
            (b"%%MatrixMarket matrix coordinate real symmetric\n2 3 0\n", ", line 2: a symmetric matrix is square"),
            (b"%%MatrixMarket matrix coordinate real symmetric\n2 2 1\n1 2 1", ", line 3: of a symmetric matrix only"),
            (
                b"%%MatrixMarket matrix coordinate real skew-symmetric\n2 2 1\n1 1 0",
                ", line 3: of a skew-symmetric matrix only",
            ),
            (
                b"%%MatrixMarket matrix coordinate real symmetric\n2 2 2\n2 1 1\n2 1 1",
                ", line 4: the place (1, 2) is in line 3 already",
            ),
            (
                b"%%MatrixMarket matrix array real general\n2\n1\n2",
                ", line 2: expected rows and columns, found 1 numbers",
            ),
            (
                b"%%MatrixMarket matrix array real general\n2 2\n1\n2\n3",
                ", line 5: the header claims 4 numbers, the file has 3",
            ),
            (
                b"%%MatrixMarket matrix array real general\n1 1\n1\n2",
                ", line 4: the header claims 1 numbers, here is another",
            ),
            (
                b"%%MatrixMarket matrix array real general\n10000000 10000000\n1\n",
                ", line 3: the header claims 100000000000000 numbers, the file has 1",
            ),
            (
                b"%%MatrixMarket matrix array real general\n1000000000000 1000000000000\n1\n",
                ", line 2: the shape [1000000000000, 1000000000000] has more elements",
            ),
        ],
    );
}

#[test]
fn tns_reads_and_refuses() {
    let coo = |shape: &[usize], columns: &[&[usize]], data: &[f64]| {
        let columns = columns.iter().map(|c| c.to_vec()).collect();
        Ok(FileValue::Coo(Coo::from_unsorted(shape.to_vec(), columns, data).unwrap()))
    };
    let read = |text: &str| parse("tns", text.as_bytes());
    assert_eq!(read("2 1 3 0.5\r\n1 1 1 -1"), coo(&[2, 1, 3], &[&[1, 0], &[0, 0], &[2, 0]], &[0.5, -1.0]));
    assert_eq!(
        read("# shape: 4 4\n# more\n\n1 1 2 # 0\n").unwrap_err(),
        "file.tns, line 4: expected 3 numbers, found 5"
    );
    assert_eq!(read("# shape: 4 4\n2 1 nan\n1 1 inf\n").map(|v| matches!(v, FileValue::Coo(_))), Ok(true));
    assert_eq!(read("# shape: 4 4\n2 1\n1 3\n"), Ok(relation(&[4, 4], &[&[0, 2], &[1, 0]])));
    assert_eq!(read("#shape: 0 5\n"), coo(&[0, 5], &[&[], &[]], &[]));
    assert_eq!(read("3 7\n"), coo(&[3], &[&[2]], &[7.0]));
    check_errors(
        "tns",
        &[
            (b"", ": this file has neither entries nor a `# shape:`"),
            (b"# nothing\n", ": this file has neither entries nor a `# shape:`"),
            (b"1\n", ", line 1: expected 1 to 16 coordinates, found 0"),
            (b"1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1\n", ", line 1: expected 1 to 16 coordinates, found 17"),
            (b"1 1 1\n1 1\n", ", line 2: expected 3 numbers, found 2"),
            (b"1 1 1\n1 1 1 1\n", ", line 2: expected 3 numbers, found 4"),
            (b"0 1 1\n", ", line 1: a coordinate counts from 1, found 0"),
            (b"1 x 1\n", ", line 1: expected a coordinate, found `x`"),
            (b"1 9223372036854775808 1\n", ", line 1: coordinate 9223372036854775808 is beyond the length"),
            (b"1 1 x\n", ", line 1: expected a number, found `x`"),
            (b"1 1 1\n2 1 1\n1 1 2\n", ", line 3: the place (1, 1) is in line 1 already"),
            (b"# shape: 2 2\n3 1 1\n", ", line 2: coordinate 3 is beyond the length 2"),
            (b"# shape: 2 2\n1 1\n1 2 1\n", ", line 3: expected 2 numbers, found 3"),
            (b"# shape: 2 x\n", ", line 1: expected a length, found `x`"),
            (b"# shape: 2 2\n# shape: 2 2\n", ", line 2: the shape is given once"),
            (b"1 1 1\n# shape: 2 2\n", ", line 2: the shape is given once"),
            (b"# shape:\n", ": a sparse tensor or relation needs at least one axis"),
            (b"# shape:\n1\n", ", line 2: expected 1 to 16 coordinates, found 0"),
            (b"1 1 \xff\n", ", line 1: this line is not UTF-8 text"),
        ],
    );
    // No memory for the claimed shape.
    let hostile = read("# shape: 1000000000000000 3\n5 1 1").unwrap();
    let error = hostile.into_csr("A").unwrap_err().to_string();
    assert!(error.starts_with("A: 1000000000000000 rows with 1 entries are too many for csr"), "{error}");
}

/// The vector of a table of one column.
fn column(data: &[f64]) -> FileValue {
    FileValue::Column(Dense::vector(data.to_vec()))
}

#[test]
fn csv_reads_and_refuses() {
    let read = |text: &str| parse("csv", text.as_bytes());
    assert_eq!(read("1\n2.5\n-3e2\n"), Ok(column(&[1.0, 2.5, -300.0])));
    assert_eq!(read("1,2\r\n3, 4 \r\n"), Ok(dense(&[2, 2], &[1.0, 2.0, 3.0, 4.0])));
    let row = Ok(FileValue::Row(Dense::new(&[1, 2], vec![1.0, 2.0]).unwrap()));
    assert_eq!(read("x,y z\n1,2"), row);
    assert_eq!(read("\"x, y\",z\n\"1\",2\n"), row);
    assert_eq!(read("\"x \"\"y\"\"\",z\n\"1\" , 2\n"), row);
    // Blank lines come last.
    for end in ["", "\n", "\n\n\n", "\r\n\r\n", "\r\r"] {
        assert_eq!(read(&format!("1\r\n2{end}")), Ok(column(&[1.0, 2.0])), "{end:?}");
    }
    assert_eq!(read("1\r2\r3"), Ok(column(&[1.0, 2.0, 3.0])));
    assert_eq!(read("\u{feff}1,2\n"), row);
    assert_eq!(read("x,y\n"), Ok(dense(&[0, 2], &[])));
    assert_eq!(read("inf\n-inf\n"), Ok(column(&[f64::INFINITY, f64::NEG_INFINITY])));
    check_errors(
        "csv",
        &[
            (b"", ": this file is empty"),
            (b"\n\n", ": this file is empty"),
            (b"1,2\n3\n", ", line 2: expected 2 fields as in the first line, found 1"),
            (b"1,2\n3,4\n5,6,7\n", ", line 3: expected 2 fields as in the first line, found 3"),
            (b"1,2\n\n3,4\n", ", line 2: this line is blank"),
            (b"1\n2\n\n\n3\n", ", line 3: this line is blank"),
            (b"1\r\n2\r\n\r\n3\r\n", ", line 3: this line is blank"),
            (b"\n1\n", ", line 1: this line is blank"),
            (b"\xef\xbb\xbf\n1\n", ", line 1: this line is blank"),
            (b"1\n \t\n2\n", ", line 2: column 1: expected a number, found nothing"),
            (b"x\n\n1\n", ", line 2: this line is blank"),
            // No headers but numbers that are wrong, or missing.
            (b"1.5e\n2\n", ", line 1: column 1: expected a number, found `1.5e`"),
            (b"1e400\n2\n", ", line 1: column 1: `1e400` is beyond the range"),
            (b"0x10\n2\n", ", line 1: column 1: expected a number, found `0x10`"),
            (b"x,0x10\n1,2\n", ", line 1: column 1: expected a number, found `x`"),
            (b"1.5e,2.5e\n1,2\n", ", line 1: column 1: expected a number, found `1.5e`"),
            ("\u{2212}5\n2\n".as_bytes(), ", line 1: column 1: expected a number, found `\u{2212}5`"),
            (b"$5\n2\n", ", line 1: column 1: expected a number, found `$5`"),
            (b"-\n2\n", ", line 1: column 1: expected a number, found `-`"),
            (b"NA\n2\n", ", line 1: column 1: expected a number, found `NA`"),
            (b"null,N/A\n1,2\n", ", line 1: column 1: expected a number, found `null`"),
            (b"\"x\n1\n2\n", ", line 1: a quote is opened here and not closed"),
            (b"1\n\"2", ", line 2: a quote is opened here and not closed"),
            (b"\"1\"2,3\n", ", line 1: behind a closing quote there is a comma or the end of the line"),
            (b"1,\"2\"\n3,\"4\"5\n", ", line 2: behind a closing quote there is a comma or the end of the line"),
            (b"1,2\n3,x\n", ", line 2: column 2: expected a number, found `x`"),
            (b"x,2\n", ", line 1: column 1: expected a number, found `x`"),
            (b"x\ny\n", ", line 2: column 1: expected a number, found `y`"),
            (b"1,2\n,4\n", ", line 2: column 1: expected a number, found nothing"),
            (b",\n", ", line 1: column 1: expected a number, found nothing"),
            (b"1;2\n3;4\n", ", line 1: column 1: expected a number, found `1;2`; numbers are set apart by commas"),
            (b"1,2\n3,1e400\n", ", line 2: column 2: `1e400` is beyond the range"),
            (b"1,2\n3,\xff\n", ", line 2: column 2: `\u{fffd}` is not UTF-8 text"),
        ],
    );
}

/// Who reads is told which line is no data.
#[test]
fn what_is_read_between_the_lines_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let told_of = |extension: &str, text: &str| {
        let path = directory.path().join(format!("file.{extension}"));
        std::fs::write(&path, text).unwrap();
        let mut notes = Vec::new();
        read_value_and_notes(&path, &mut notes).unwrap();
        let start = format!("{}: ", path.display());
        notes.iter().map(|note| note.strip_prefix(&start).unwrap().to_string()).collect::<Vec<_>>()
    };
    let told = |text: &str| told_of("csv", text);
    let header = |fields: &str| [format!("the first line, `{fields}`, is taken for a header")];
    assert_eq!(told("1,2\n"), [""; 0]);
    assert_eq!(told("nan\n2\n"), [""; 0]);
    assert_eq!(told("x,y\n1,2\n"), header("x,y"));
    assert_eq!(told(",x1,NA\n0,1,2\n"), header(",x1,NA"));
    assert_eq!(told("# x, (m/s)\n1,2\n"), header("# x,(m/s)"));
    assert_eq!(csv::parse("f", b"x,y\n1,2\n").unwrap().header, Some(vec!["x".to_string(), "y".to_string()]));
    assert_eq!(told_of("tns", "# shape: 3 4\n2 1 0.5\n"), [""; 0]);
    let shape = "no shape is given, so it is that of the largest coordinates; where the axes are longer, a first line says so, as `# shape: 2 3`";
    assert_eq!(told_of("tns", "2 1 0.5\n1 3 2\n"), [shape]);
}

/// A table of one column is a vector or a matrix, as the program declares; a vector of another format is a vector.
#[test]
fn columns_are_vectors_and_matrices() {
    let text = "param x : [n] real\nparam A : [n, m] real\nsum(x) + sum(A)";
    let signature = crate::surface::read(text, &[]).unwrap().signature;
    let shape_of = |name: &str, value: FileValue| {
        let mut inputs = Inputs::new();
        inputs.file_value(&signature, name, value).unwrap();
        inputs.get(name).and_then(Value::as_tensor).map(Tensor::shape)
    };
    let column = || parse("csv", b"1\n2\n3\n").unwrap();
    assert_eq!(shape_of("x", column()), Some(vec![3]));
    assert_eq!(shape_of("A", column()), Some(vec![3, 1]));
    assert_eq!(shape_of("A", parse("csv", b"1,2,3\n").unwrap()), Some(vec![1, 3]));
    assert_eq!(shape_of("A", dense(&[3], &[1.0, 2.0, 3.0])), Some(vec![3]));
}

/// A `.npy` file with a header text of any kind.
fn npy_file(header: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16 + 1).to_le_bytes());
    bytes.extend(header.as_bytes());
    bytes.push(b'\n');
    bytes.extend(data);
    bytes
}

fn npy_array(element: &str, fortran: bool, shape: &str, data: &[u8]) -> Vec<u8> {
    let fortran = if fortran { "True" } else { "False" };
    npy_file(&format!("{{'descr': '{element}', 'fortran_order': {fortran}, 'shape': {shape}, }}"), data)
}

#[test]
fn npy_reads_every_element_type() {
    let bytes = |words: &[&[u8]]| words.concat();
    let two = |a: f64, b: f64| Ok(dense(&[2], &[a, b]));
    let table: Vec<(&str, Vec<u8>, std::result::Result<FileValue, String>)> = vec![
        ("<f8", bytes(&[&1.5f64.to_le_bytes(), &(-0.1f64).to_le_bytes()]), two(1.5, -0.1)),
        (">f8", bytes(&[&1.5f64.to_be_bytes(), &(-0.1f64).to_be_bytes()]), two(1.5, -0.1)),
        ("<f4", bytes(&[&1.5f32.to_le_bytes(), &0.1f32.to_le_bytes()]), two(1.5, f64::from(0.1f32))),
        (">f4", bytes(&[&1.5f32.to_be_bytes(), &0.1f32.to_be_bytes()]), two(1.5, f64::from(0.1f32))),
        ("<i8", bytes(&[&(-3i64).to_le_bytes(), &(1i64 << 60).to_le_bytes()]), two(-3.0, (1i64 << 60) as f64)),
        ("<u8", bytes(&[&3u64.to_le_bytes(), &(1u64 << 63).to_le_bytes()]), two(3.0, (1u64 << 63) as f64)),
        (">i4", bytes(&[&(-3i32).to_be_bytes(), &7i32.to_be_bytes()]), two(-3.0, 7.0)),
        ("<u4", bytes(&[&3u32.to_le_bytes(), &u32::MAX.to_le_bytes()]), two(3.0, f64::from(u32::MAX))),
        ("<i2", bytes(&[&(-3i16).to_le_bytes(), &7i16.to_le_bytes()]), two(-3.0, 7.0)),
        ("<u2", bytes(&[&3u16.to_le_bytes(), &7u16.to_le_bytes()]), two(3.0, 7.0)),
        ("|i1", vec![253, 7], two(-3.0, 7.0)),
        ("|u1", vec![253, 7], two(253.0, 7.0)),
        ("|b1", vec![1, 0], two(1.0, 0.0)),
    ];
    for (element, data, expected) in table {
        assert_eq!(parse("npy", &npy_array(element, false, "(2,)", &data)), expected, "{element}");
    }
    let columns = npy_array("|u1", true, "(2, 3)", &[1, 2, 3, 4, 5, 6]);
    assert_eq!(parse("npy", &columns), Ok(dense(&[2, 3], &[1., 3., 5., 2., 4., 6.])));
    let doubles: Vec<u8> = (1..=6).flat_map(|k| f64::from(k).to_le_bytes()).collect();
    assert_eq!(
        parse("npy", &npy_array("<f8", true, "(2, 3)", &doubles)),
        Ok(dense(&[2, 3], &[1., 3., 5., 2., 4., 6.]))
    );
    assert_eq!(parse("npy", &npy_array("<f8", false, "()", &2.5f64.to_le_bytes())), Ok(dense(&[], &[2.5])));
    assert_eq!(parse("npy", &npy_array("<f8", false, "(0, 1099511627776)", &[])), Ok(dense(&[0, 1 << 40], &[])));
}

#[test]
fn npy_refuses_bad_files() {
    let f8 = |shape: &str, bytes: usize| npy_array("<f8", false, shape, &vec![0; bytes]);
    let mut version = f8("(1,)", 8);
    version[6] = 9;
    let mut long = b"\x93NUMPY\x02\x00".to_vec();
    long.extend(u32::MAX.to_le_bytes());
    let mut short = f8("(1,)", 8);
    short.truncate(40);
    let deep = npy_file(&"(".repeat(60000), &[]);
    let deep_lists = npy_file(&format!("{{'descr': {}", "[".repeat(9)), &[]);
    let owned: Vec<(Vec<u8>, &str)> = vec![
        (vec![], ": this is no .npy file"),
        (b"\x93NUMP".to_vec(), ": this is no .npy file"),
        (b"\x93NUMPY".to_vec(), ": the file ends within its header"),
        (b"\x93NUMPY\x01\x00\x10".to_vec(), ": the file ends within its header"),
        (b"\x93NUMPY\x01\x00\x10\x00".to_vec(), ": the file ends within its header"),
        (short, ": the file ends within its header"),
        (version, ": expected .npy version 1.0, 2.0 or 3.0, found 9.0"),
        (long, ": the header claims 4294967295 bytes, the limit is 65536"),
        (deep, ": the header is malformed: it nests too deep"),
        (deep_lists, ": the header is malformed: it nests too deep"),
        (npy_file("", &[]), ": the header is malformed"),
        (npy_file("hello", &[]), ": the header is malformed"),
        (npy_file("(1, 2)", &[]), ": the header is malformed"),
        (
            npy_file("{'descr': '<f8', 'shape': (1,)}", &[0; 8]),
            ": the header is malformed: error parsing header: missing key",
        ),
        (f8("(1, -1)", 8), ": the header is malformed: error parsing header: illegal value for key shape"),
        (
            f8("(99999999999999999999,)", 8),
            ": the header is malformed: error parsing header: illegal value for key shape",
        ),
        (f8("(1.0,)", 8), ": the header is malformed: error parsing header: illegal value for key shape"),
        (f8("(1000000000000,)", 8), ": the header claims 1000000000000 elements of 8 bytes, 8 bytes follow"),
        (f8("(1000000000000, 1000000000000)", 8), ": the shape [1000000000000, 1000000000000] has more elements"),
        (f8("(0, 1000000000000, 1000000000000)", 0), ": the shape [0, 1000000000000, 1000000000000] has more elements"),
        (f8("(0, 18446744073709551615)", 0), ": axis 1 has length 18446744073709551615"),
        (f8("(1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1)", 8), ": 17 axes are more than the limit of 16"),
        (f8("(2,)", 8), ": the header claims 2 elements of 8 bytes, 8 bytes follow"),
        (f8("(2,)", 17), ": the header claims 2 elements of 8 bytes, 17 bytes follow"),
        (f8("(0,)", 1), ": the header claims 0 elements of 8 bytes, 1 bytes follow"),
        (npy_array("<c16", false, "(1,)", &[0; 16]), ": expected elements of type f8, f4"),
        (npy_array("<f2", false, "(1,)", &[0; 2]), ": expected elements of type f8, f4"),
        (npy_array("|S3", false, "(1,)", &[0; 3]), ": expected elements of type f8, f4"),
        (npy_array("|O", false, "(1,)", &[0; 8]), ": expected elements of type f8, f4"),
        (
            npy_file("{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1,)}", &[0; 8]),
            ": the elements are structured",
        ),
        (npy_array("|b1", false, "(2,)", &[0, 2]), ": the elements cannot be read"),
        (
            npy_array("<i8", false, "(1,)", &9007199254740993i64.to_le_bytes()),
            ": element 0 has no exact value as a 64-bit float",
        ),
    ];
    let table: Vec<(&[u8], &str)> = owned.iter().map(|(bytes, e)| (bytes.as_slice(), *e)).collect();
    check_errors("npy", &table);
}

/// A zip archive of stored entries.
fn zip_file(entries: &[(&str, &[u8])], method: zip::CompressionMethod) -> Vec<u8> {
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default().compression_method(method);
    for (name, contents) in entries {
        writer.start_file(*name, options).unwrap();
        writer.write_all(contents).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

/// What `scipy.sparse.save_npz` writes.
fn saved(format: &str, shape: [i64; 2], lists: &[(&str, &[i32])], data: &[f64]) -> Vec<u8> {
    let text = npy_array(&format!("|S{}", format.len()), false, "()", format.as_bytes());
    let list = |name: &str, kind: &str, bytes: Vec<u8>, length: usize| {
        (format!("{name}.npy"), npy_array(kind, false, &format!("({length},)"), &bytes))
    };
    let mut entries = vec![("format.npy".to_string(), text)];
    for (name, integers) in lists {
        entries.push(list(name, "<i4", integers.iter().flat_map(|k| k.to_le_bytes()).collect(), integers.len()));
    }
    entries.push(list("shape", "<i8", shape.iter().flat_map(|k| k.to_le_bytes()).collect(), 2));
    entries.push(list("data", "<f8", data.iter().flat_map(|x| x.to_le_bytes()).collect(), data.len()));
    let entries: Vec<(&str, &[u8])> = entries.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())).collect();
    zip_file(&entries, zip::CompressionMethod::Deflated)
}

#[test]
fn npz_of_scipy() {
    // [[1, 0, 2], [0, 3, 0]], with entries out of order.
    let expected = Coo::new(vec![2, 3], vec![vec![0, 0, 1], vec![0, 2, 1]], vec![1.0, 2.0, 3.0]).unwrap();
    let read = |bytes: &[u8]| parse("npz", bytes).unwrap().into_coo("f").unwrap();
    let csr = |indptr: &[i32], indices: &[i32]| {
        saved("csr", [2, 3], &[("indptr", indptr), ("indices", indices)], &[2.0, 1.0, 3.0])
    };
    assert_eq!(read(&csr(&[0, 2, 3], &[2, 0, 1])), expected);
    let csc = saved("csc", [2, 3], &[("indptr", &[0, 1, 2, 3]), ("indices", &[0, 1, 0])], &[1.0, 3.0, 2.0]);
    assert_eq!(read(&csc), expected);
    let coo = |row: &[i32]| saved("coo", [2, 3], &[("row", row), ("col", &[1, 0, 2])], &[3.0, 1.0, 2.0]);
    assert_eq!(read(&coo(&[1, 0, 0])), expected);
    assert!(matches!(parse("npz", &csr(&[0, 2, 3], &[2, 0, 1])), Ok(FileValue::Csr(_))));
    let diagonal = saved("dia", [2, 3], &[("offsets", &[0])], &[1.0]);
    let offsets = ": entry indptr: expected 2 offsets and one more, which grow from 0 to 3";
    let owned = [
        (diagonal, ": expected a matrix in the format csr, csc or coo, found dia; `.tocsr()` makes it one"),
        (csr(&[0, 2], &[2, 0, 1]), offsets),
        (csr(&[0, 2, 4], &[2, 0, 1]), offsets),
        (csr(&[2, 0, 3], &[2, 0, 1]), offsets),
        (csr(&[], &[2, 0, 1]), offsets),
        (csr(&[0, 2, 3], &[2, 0, 7]), ": "),
        (csr(&[0, 2, 3], &[2, 2, 1]), ": "),
        (csr(&[0, 2, 3], &[2, -1, 1]), ": entry indices: expected integers that are not negative"),
        (coo(&[1, 0]), ": "),
        (
            saved("coo", [2, 3], &[("row", &[1])], &[3.0]),
            ": expected a list `col` in the archive of a matrix in the format coo",
        ),
    ];
    let table: Vec<(&[u8], &str)> = owned.iter().map(|(bytes, e)| (bytes.as_slice(), *e)).collect();
    check_errors("npz", &table);
}

#[test]
fn npz_reads_and_refuses() {
    let good = npy_array("<f8", false, "(1,)", &2.5f64.to_le_bytes());
    for method in [zip::CompressionMethod::Stored, zip::CompressionMethod::Deflated] {
        let archive = parse("npz", &zip_file(&[("x.npy", &good), ("ab.0.npy", &good)], method)).unwrap();
        let one = Dense::vector(vec![2.5]);
        let expected = BTreeMap::from([("x".to_string(), one.clone()), ("ab.0".to_string(), one)]);
        assert_eq!(archive, FileValue::Archive(expected));
    }
    let bad = npy_array("<f8", false, "(1000000000000,)", &[]);
    let stored = |entries: &[(&str, &[u8])]| zip_file(entries, zip::CompressionMethod::Stored);
    let mut flipped = stored(&[("x.npy", &good)]);
    let at = flipped.windows(8).position(|w| w == 2.5f64.to_le_bytes()).unwrap();
    flipped[at] ^= 1;
    let whole = stored(&[("x.npy", &good)]);
    // No library writes a name twice.
    let other = npy_array("<f8", false, "(1,)", &3.5f64.to_le_bytes());
    let mut twice = stored(&[("x.npy", &good), ("y.npy", &other), ("z.npy", &good)]);
    let named: Vec<usize> = (0..twice.len() - 5).filter(|at| &twice[*at..*at + 5] == b"y.npy").collect();
    named.iter().for_each(|at| twice[*at] = b'x');
    let owned = [
        (twice, ": the archive holds `x` twice"),
        (vec![], ": the archive is damaged"),
        (b"PK\x03\x04".to_vec(), ": the archive is damaged"),
        (whole[..whole.len() - 5].to_vec(), ": the archive is damaged"),
        (flipped, ": the archive is damaged"),
        (stored(&[("x.txt", b"1")]), ": expected .npy files in the archive, found `x.txt`"),
        (stored(&[("x.npy", &bad)]), ", entry x: the header claims 1000000000000 elements of 8 bytes, 0 bytes follow"),
        (stored(&[("x.npy", b"")]), ", entry x: this is no .npy file"),
    ];
    let table: Vec<(&[u8], &str)> = owned.iter().map(|(bytes, e)| (bytes.as_slice(), *e)).collect();
    check_errors("npz", &table);
}

#[test]
fn files_that_cannot_be_read() {
    let directory = tempfile::tempdir().unwrap();
    let error = |name: &str| read_value(directory.path().join(name)).unwrap_err().to_string();
    assert!(error("none.mtx").contains("none.mtx: this file cannot be read"));
    std::fs::create_dir(directory.path().join("folder.mtx")).unwrap();
    assert!(error("folder.mtx").contains("folder.mtx: this is not a regular file"));
    assert!(error("file.txt").contains("expected the extension .npy, .npz, .mtx, .tns or .csv, found `.txt`"));
    assert!(error("file").contains("found none"));
    let matrix = matrix(1, 1, &[]);
    let write =
        |name: &str, value: &FileValue| write_value(directory.path().join(name), value).unwrap_err().to_string();
    assert!(write("x.npy", &matrix).contains("x.npy: this format does not hold a sparse matrix"));
    assert!(write("x.tns", &dense(&[1], &[1.0])).contains("x.tns: a coordinate file holds sparse tensors"));
    assert!(write("x.mtx", &dense(&[1], &[1.0])).contains("x.mtx: a MatrixMarket file holds matrices"));
    assert!(write("x.csv", &dense(&[1, 1, 1], &[1.0])).contains("x.csv: a table has at most 2 axes, found 3"));
    assert!(write("x.csv", &dense(&[3, 0], &[])).contains("x.csv: a table without columns cannot be written"));
    assert!(write("no/x.mtx", &matrix).contains("this file cannot be written"));
    assert!(write("x.txt", &matrix).contains("expected the extension"));
}

/// Writes and reads; NaN equals NaN, zeros keep their sign.
fn check_round_trip(extension: &str, value: &FileValue) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(format!("file.{extension}"));
    write_value(&path, value).unwrap();
    let back = read_value(&path).unwrap();
    assert_eq!(format!("{back:?}"), format!("{value:?}"), "{extension}");
}

#[test]
fn files_round_trip() {
    let special =
        [0.1, -0.0, 5e-324, f64::MAX, 1e300, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 0.0, 3.0, -7.0, 1e-9];
    for shape in [&[12][..], &[3, 4], &[1, 12], &[6, 2]] {
        let value = dense(shape, &special);
        check_round_trip("npy", &value);
        match value {
            // Of a table of one line nobody knows whether it is a matrix.
            FileValue::Dense(dense) if shape[0] == 1 => check_round_trip("csv", &FileValue::Row(dense)),
            FileValue::Dense(dense) if shape.len() == 1 => check_round_trip("csv", &FileValue::Column(dense)),
            _ => check_round_trip("csv", &value),
        }
        if shape.len() == 2 {
            check_round_trip("mtx", &dense(shape, &special));
        }
    }
    for shape in [&[2, 3, 2][..], &[1, 1, 12, 1]] {
        check_round_trip("npy", &dense(shape, &special));
    }
    check_round_trip("npy", &dense(&[], &[2.5]));
    check_round_trip("npy", &dense(&[0, 1 << 40], &[]));
    check_round_trip("mtx", &dense(&[0, 4], &[]));
    check_round_trip("mtx", &dense(&[4, 0], &[]));
    check_round_trip("csv", &dense(&[0, 4], &[]));
    check_round_trip("csv", &column(&[]));
    let tensors =
        [("x", Dense::vector(special.to_vec())), ("ab.1", Dense::scalar(1.0)), ("é/..", Dense::vector(vec![]))];
    check_round_trip("npz", &FileValue::Archive(tensors.map(|(name, t)| (name.to_string(), t)).into()));
    check_round_trip("npz", &FileValue::Archive(BTreeMap::new()));
    let sparse = matrix(5, 4, &[(1, 3, 0.0), (1, 0, f64::NAN), (3, 2, 1e-300), (3, 3, -0.0)]);
    check_round_trip("mtx", &sparse);
    check_round_trip("mtx", &matrix(0, 4, &[]));
    let coo = sparse.clone().into_coo("A").unwrap();
    check_round_trip("tns", &FileValue::Coo(coo));
    let solid = vec![vec![0, 0, 5], vec![1, 1, 0], vec![0, 7, 0]];
    check_round_trip("tns", &FileValue::Coo(Coo::new(vec![6, 2, 8], solid, vec![1.0, f64::INFINITY, 0.5]).unwrap()));
    check_round_trip("mtx", &relation(&[3, 5], &[&[0, 4], &[2, 2]]));
    check_round_trip("tns", &relation(&[3, 5], &[&[0, 4], &[2, 2]]));
    check_round_trip("tns", &relation(&[3, 5, 2, 2], &[&[0, 4, 1, 1], &[2, 2, 0, 0]]));
    check_round_trip("tns", &FileValue::Relation(Relation::from_map(&[2, 2], vec![1, 0, 3, 2], 9).unwrap()));
}

/// Damages good files in all ways: every result is a value or an error, never a panic or much memory.
#[test]
fn damaged_files_are_values_or_errors() {
    let npy = npy_array("<f8", false, "(2, 3)", &[0; 48]);
    let seeds: Vec<(&str, Vec<u8>)> = vec![
        ("npz", zip_file(&[("x.npy", &npy), ("y.npy", &npy)], zip::CompressionMethod::Stored)),
        ("npz", zip_file(&[("x.npy", &npy)], zip::CompressionMethod::Deflated)),
        ("npy", npy),
        ("npy", npy_array("<i8", true, "(2, 2)", &[0; 32])),
        ("mtx", b"%%MatrixMarket matrix coordinate real general\n3 4 2\n3 4 0\n1 1 -1.5e3\n".to_vec()),
        ("mtx", b"%%MatrixMarket matrix coordinate pattern symmetric\n3 3 2\n2 2\n3 1\n".to_vec()),
        ("mtx", b"%%MatrixMarket matrix array real symmetric\n2 2\n1\n2\n3\n".to_vec()),
        ("tns", b"# shape: 3 4 2\n1 1 1 0.5\n3 4 2 -1\n".to_vec()),
        ("tns", b"1 1 1 0.5\n3 4 2 -1\n".to_vec()),
        ("csv", b"x,y\n1,2\n3,\"4\"\n".to_vec()),
    ];
    let mut rng = fastrand::Rng::with_seed(17);
    let (mut values, mut errors) = (0, 0);
    for (extension, seed) in &seeds {
        for _ in 0..1500 {
            let mut bytes = seed.clone();
            for _ in 0..rng.usize(1..4) {
                let at = rng.usize(0..bytes.len().max(1)).min(bytes.len());
                match rng.u8(0..5) {
                    0 => bytes.truncate(at),
                    1 => bytes.insert(at, *rng.choice(b"0123456789-., \n()[]{}'eE+_xX\\\"%#\xff\0").unwrap()),
                    2 if at < bytes.len() => bytes[at] = rng.u8(..),
                    3 if at < bytes.len() => drop(bytes.remove(at)),
                    4 => {
                        let (from, to) = (rng.usize(0..=at), at);
                        let copy = bytes[from..to].to_vec();
                        bytes.splice(at..at, copy);
                    }
                    _ => {}
                }
            }
            let result = match *extension {
                "npy" => npy::parse("f", &bytes).map(FileValue::Dense),
                "npz" => npz::parse("f", &bytes),
                "mtx" => mtx::parse("f", &bytes),
                "tns" => tns::parse("f", &bytes),
                _ => csv::parse("f", &bytes).map(|table| FileValue::Dense(table.numbers)),
            };
            match result {
                Ok(_) => values += 1,
                Err(Error::Data { .. }) => errors += 1,
                Err(other) => panic!("not an error about data: {other:?}"),
            }
        }
    }
    assert!(values > 100 && errors > 1000, "{values} {errors}");
}

#[test]
fn file_values_go_to_what_the_program_declares() {
    use crate::base::ParamId;
    use crate::index::Size;
    use crate::ty::{Format, Param, RelationKind, Types};
    let mut signature = Signature::default();
    let n = Size::size(signature.sizes.push("n".to_string()));
    let ty = signature.types.tensor_of(&[n.clone(), n.clone()], Types::REAL);
    let mut sparse = |name: &str, k: u32, format: Format| {
        let kind = RelationKind::Pattern(ParamId(k));
        let shape = vec![n.clone(), n.clone()];
        let pattern = signature.relations.push(crate::ty::Relation { name: format!("{name}?"), shape, kind });
        signature.params.push(Param { name: name.to_string(), ty, storage: Storage::Sparse(format, pattern) });
    };
    sparse("A", 0, Format::Csr);
    sparse("T", 1, Format::Coo);
    sparse("C", 2, Format::Csc);
    signature.params.push(Param { name: "x".to_string(), ty, storage: Storage::Dense });
    let shape = vec![n.clone(), n.clone()];
    signature.relations.push(crate::ty::Relation { name: "E".to_string(), shape, kind: RelationKind::Free });
    let read = |extension: &str, text: &[u8]| parse(extension, text).unwrap();
    let mtx = || read("mtx", b"%%MatrixMarket matrix coordinate real general\n2 2 1\n2 1 5\n");
    let tns = || read("tns", b"# shape: 2 2\n2 1 5\n");
    let table = || read("csv", b"0,1\n1,0\n");
    // What is declared decides, not the file.
    for (a, t, e) in [(mtx(), tns(), table()), (tns(), mtx(), tns())] {
        let mut inputs = Inputs::new();
        inputs.file_value(&signature, "A", a).unwrap();
        inputs.file_value(&signature, "C", t.clone()).unwrap();
        inputs.file_value(&signature, "T", t).unwrap();
        inputs.file_value(&signature, "E", e).unwrap();
        let archive = FileValue::Archive(BTreeMap::from([("x".to_string(), table().into_dense("x").unwrap())]));
        inputs.file_value(&signature, "archive", archive).unwrap();
        let bindings = crate::tensor::bind(&signature, &inputs).unwrap();
        assert_eq!(
            bindings.values().values().map(|v| v.leaves()[0].format()).collect::<Vec<_>>(),
            ["csr", "coo", "csc", "dense"]
        );
        assert!(bindings.relations().values().all(|r| r.contains(&[1, 0])));
    }
    let refuse = |name: &str, value| Inputs::new().file_value(&signature, name, value).unwrap_err().to_string();
    assert_eq!(
        refuse("A", table()),
        "A: expected a sparse matrix (.mtx, .tns, or .npz of SciPy), found a dense tensor"
    );
    assert_eq!(
        refuse("C", table()),
        "C: expected a sparse tensor (.tns, .mtx, or .npz of SciPy), found a dense tensor"
    );
    let wide = read("tns", b"# shape: 2 4000000000\n2 1 5\n");
    assert_eq!(refuse("C", wide), "C: 4000000000 columns with 1 entries are too many for csc; declare it coo");
    let long = read("tns", b"# shape: 8000000000 2\n2 1 5\n");
    assert_eq!(refuse("C", long), "C: axis 0 has length 8000000000, the limit is 4294967296");
    assert_eq!(
        refuse("T", table()),
        "T: expected a sparse tensor (.tns, .mtx, or .npz of SciPy), found a dense tensor"
    );
    assert_eq!(refuse("x", mtx()), "x: expected a dense tensor (.npy, .csv), found a sparse matrix");
    assert_eq!(refuse("E", read("csv", b"0,1\n2,0\n")), "E: element 2 is 2; a relation has elements 0 and 1 only");
}

/// A table or an array with the axes of the sources holds the targets of a map; with one axis more it says of each pair whether it is one.
#[test]
fn maps_are_given_by_their_targets() {
    let text = "param x : [n] real\nmap f : [m] -> [n]\nmap g : [m, 2] -> [n]\nsum i < m, j < 2. x[f(i)] * x[g(i, j)]";
    let function = crate::Function::parse(text).unwrap();
    let signature = &function.tensor_ssa().signature;
    let table = |text: &[u8]| parse("csv", text).unwrap();
    let of_f = || Relation::from_map(&[3], vec![1, 0, 2], 3).unwrap();
    let of_g = || Relation::from_map(&[3, 2], vec![1, 0, 2, 2, 0, 1], 3).unwrap();
    for f in [&b"1\n0\n2\n"[..], b"1,0,2\n", b"0,1,0\n1,0,0\n0,0,1\n"] {
        let mut inputs = Inputs::new();
        inputs.value("x", Value::vector(vec![1.0, 2.0, 4.0]));
        inputs.file_value(signature, "f", table(f)).unwrap();
        inputs.file_value(signature, "g", table(b"1,0\n2,2\n0,1\n")).unwrap();
        let bindings = crate::tensor::bind(signature, &inputs).unwrap();
        let found: Vec<_> = bindings.relations().values().map(|r| (**r).clone()).collect();
        assert_eq!(found, [of_f(), of_g()]);
    }
    let refuse = |value| Inputs::new().file_value(signature, "g", value).unwrap_err().to_string();
    let message = "g: element 2 is 0.5; the targets of a map are integers from 0 on";
    assert_eq!(refuse(table(b"1,0\n0.5,2\n")), message);
    assert_eq!(refuse(table(b"1,0\n-1,2\n")), message.replace("0.5", "-1"));
}
