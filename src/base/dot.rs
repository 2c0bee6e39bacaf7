//! The GraphViz writer shared by all graph dumps.
