//! The device: WebGPU, or the CPU in the same module.

use burn::tensor::Device;
use kindling_shared::protocol::Backend;

/// Opens the device of a backend.
pub async fn open(backend: Backend) -> Result<Device, String> {
    match backend {
        Backend::Cpu => Ok(Device::flex()),
        Backend::Webgpu => Device::wgpu_options().init_async().await.map_err(|error| format!("{error:?}")),
    }
}
