//! Normal forms.
