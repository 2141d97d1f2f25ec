pub(crate) fn measure(_folder: &std::path::Path) {}
