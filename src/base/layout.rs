//! The text writer shared by all printers.
