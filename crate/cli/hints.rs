//! The next step after an error, where there is an obvious one.

use crate::Error;

/// Vietnamese and English.
pub(super) fn of(error: &Error) -> Option<(&'static str, &'static str)> {
    match error {
        Error::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => Some((
            "hãy kiểm tra đường dẫn; thư mục mô hình có config.json, tokenizer.json và các tệp .safetensors",
            "check the path; a model folder has config.json, tokenizer.json and .safetensors files",
        )),
        Error::Http { fault, .. } if fault.is_untrue() => Some((
            "máy chủ phải hỗ trợ Range với tệp nguyên gốc, không nén; hãy thử máy chủ khác hoặc tải về rồi dùng thư mục",
            "the server has to answer ranges of the files as they are; try another one, or fetch the files and give the folder",
        )),
        Error::Http { .. } => Some((
            "hãy kiểm tra địa chỉ và mạng; phần đã tải được giữ lại, lần sau sẽ tiếp tục",
            "check the address and the network; what has arrived is kept, and the next run goes on from there",
        )),
        Error::Integrity(_) | Error::Header { .. } | Error::Index { .. } | Error::NotFinite { .. } => Some((
            "tệp có thể bị hỏng hoặc tải chưa xong; hãy tải lại, rồi xem bằng `flash890 inspect`",
            "the file may be damaged or a download unfinished; fetch it again, then look with `flash890 inspect`",
        )),
        Error::Tensor { .. } | Error::Config { .. } => Some((
            "`flash890 inspect THƯ_MỤC` cho biết config.json cần gì và tệp có gì",
            "`flash890 inspect DIR` shows what config.json asks for and what the files hold",
        )),
        Error::DoesNotFit { .. } => Some((
            "hãy dùng mô hình nhỏ hơn; không có --model thì mô hình thí nghiệm có sẵn sẽ chạy",
            "use a smaller model; without --model the built-in lab model runs",
        )),
        Error::Picture(_) => Some((
            "cần ảnh PNG, JPEG hoặc WebP còn nguyên vẹn và không quá dài hay quá mảnh",
            "a whole PNG, JPEG or WebP picture is needed, not too long and thin",
        )),
        _ => None,
    }
}
