//! scratch
use iverson::*; 
fn main(){ for text in ["param q1 : csr [n,n] real\n[n >= 2] * ([q1?(1,1)] * q1.value(1,1))","param q1 : csr [n,n] real\n[q1?(1,1)] * q1.value(1,1)","param q1 : csr [n,n] real\n sum i < n. [q1?(i,i)] * q1.value(i,i)", "param q1 : csr [n,n] real\n [n >= 2] *q1[1,1]"] {
 match surface::read(text,&[]) { Ok(p)=>println!("ok {p}"), Err(e)=>println!("{e}") } } }
