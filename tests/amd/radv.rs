//! AMD's compiler in Mesa (radv), for a GPU that need not exist: its reports on compute kernels.

#![allow(unsafe_code, reason = "Vulkan is a C interface")]

use common::ash::ext::robustness2;
use common::ash::khr::pipeline_executable_properties as executables;
use common::ash::vk::{self, PipelineExecutableStatisticFormatKHR as Kind};
use common::naga::back::spv;
use common::naga::proc::{BoundsCheckPolicies, BoundsCheckPolicy};
use common::naga::valid::{Capabilities, ValidationFlags, Validator};
use common::naga::{AddressSpace, Module};
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char};

/// A device that compiles and cannot run. The environment of the process selects the GPU that it imitates.
pub struct Compiler {
    device: common::ash::Device,
    executables: executables::Device,
    _instance: common::ash::Instance,
    _entry: common::ash::Entry,
}

/// The driver's report on a compiled kernel.
pub struct Compiled {
    /// Statistics by Mesa's names.
    pub statistics: BTreeMap<String, u64>,
    /// The instructions as text.
    pub assembly: String,
}

impl Compiler {
    pub fn new() -> Result<Self, vk::Result> {
        // SAFETY: every handle is used with the instance and the device that made it, which live as long as the compiler.
        unsafe {
            let entry = common::ash::Entry::load().map_err(|_| vk::Result::ERROR_INITIALIZATION_FAILED)?;
            let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_3);
            let instance =
                entry.create_instance(&vk::InstanceCreateInfo::default().application_info(&application), None)?;
            let adapters = instance.enumerate_physical_devices()?;
            let adapter = *adapters.first().ok_or(vk::Result::ERROR_INITIALIZATION_FAILED)?;
            let queues = [vk::DeviceQueueCreateInfo::default().queue_priorities(&[1.0])];
            let names = [executables::NAME.as_ptr(), robustness2::NAME.as_ptr()];
            // wgpu requires bounds checks.
            let features = vk::PhysicalDeviceFeatures::default().robust_buffer_access(true);
            let mut robust = vk::PhysicalDeviceRobustness2FeaturesEXT::default().robust_buffer_access2(true);
            let mut told =
                vk::PhysicalDevicePipelineExecutablePropertiesFeaturesKHR::default().pipeline_executable_info(true);
            let info = vk::DeviceCreateInfo::default()
                .queue_create_infos(&queues)
                .enabled_extension_names(&names)
                .enabled_features(&features)
                .push_next(&mut robust)
                .push_next(&mut told);
            let device = instance.create_device(adapter, &info, None)?;
            let executables = executables::Device::new(&instance, &device);
            Ok(Self { device, executables, _instance: instance, _entry: entry })
        }
    }

    /// Compiles a kernel in WGSL.
    pub fn compile(&self, source: &str) -> Result<Compiled, vk::Result> {
        let (module, words) = spirv(source);
        let bindings: Vec<_> = module
            .global_variables
            .iter()
            .filter_map(|(_, variable)| {
                let kind = match variable.space {
                    AddressSpace::Uniform => vk::DescriptorType::UNIFORM_BUFFER,
                    _ => vk::DescriptorType::STORAGE_BUFFER,
                };
                let binding = vk::DescriptorSetLayoutBinding::default().binding(variable.binding.as_ref()?.binding);
                Some(binding.descriptor_type(kind).descriptor_count(1).stage_flags(vk::ShaderStageFlags::COMPUTE))
            })
            .collect();
        // SAFETY: as in `new`; what the create infos point to lives until the calls return.
        unsafe {
            let device = &self.device;
            let layouts = [device.create_descriptor_set_layout(
                &vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings),
                None,
            )?];
            let layout =
                device.create_pipeline_layout(&vk::PipelineLayoutCreateInfo::default().set_layouts(&layouts), None)?;
            let module = device.create_shader_module(&vk::ShaderModuleCreateInfo::default().code(&words), None)?;
            let stage = vk::PipelineShaderStageCreateInfo::default().stage(vk::ShaderStageFlags::COMPUTE);
            let flags = vk::PipelineCreateFlags::CAPTURE_STATISTICS_KHR
                | vk::PipelineCreateFlags::CAPTURE_INTERNAL_REPRESENTATIONS_KHR;
            let info = vk::ComputePipelineCreateInfo::default()
                .flags(flags)
                .stage(stage.module(module).name(c"main"))
                .layout(layout);
            let pipelines = device.create_compute_pipelines(vk::PipelineCache::null(), &[info], None);
            let pipeline = pipelines.map_err(|(_, error)| error)?[0];
            let of = vk::PipelineExecutableInfoKHR::default().pipeline(pipeline);
            let statistics = self.executables.get_pipeline_executable_statistics(&of)?;
            let statistics = statistics.iter().map(|statistic| {
                let value = match statistic.format {
                    Kind::UINT64 => statistic.value.u64,
                    _ => 0,
                };
                (text(&statistic.name), value)
            });
            let compiled = Compiled { statistics: statistics.collect(), assembly: self.assembly(&of)? };
            device.destroy_pipeline(pipeline, None);
            device.destroy_shader_module(module, None);
            device.destroy_pipeline_layout(layout, None);
            device.destroy_descriptor_set_layout(layouts[0], None);
            Ok(compiled)
        }
    }

    /// Returns the pipeline's last representation: the earlier ones are the compiler's intermediate ones.
    fn assembly(&self, of: &vk::PipelineExecutableInfoKHR) -> Result<String, vk::Result> {
        let call = self.executables.fp().get_pipeline_executable_internal_representations_khr;
        let mut count = 0;
        // SAFETY: called as Vulkan requires: first for the number, then for the sizes, then for the texts, each of which has its
        // size in bytes next to its pointer.
        unsafe {
            call(self.device.handle(), of, &mut count, std::ptr::null_mut()).result()?;
            let mut all = vec![vk::PipelineExecutableInternalRepresentationKHR::default(); count as usize];
            call(self.device.handle(), of, &mut count, all.as_mut_ptr()).result()?;
            let mut texts: Vec<_> = all.iter().map(|one| vec![0u8; one.data_size]).collect();
            for (one, text) in all.iter_mut().zip(&mut texts) {
                one.p_data = text.as_mut_ptr().cast();
            }
            call(self.device.handle(), of, &mut count, all.as_mut_ptr()).result()?;
            let last = texts.pop().unwrap_or_default();
            Ok(String::from_utf8_lossy(&last).into_owned())
        }
    }
}

fn text(name: &[c_char]) -> String {
    let bytes: Vec<u8> = name.iter().flat_map(|byte| byte.to_ne_bytes()).collect();
    CStr::from_bytes_until_nul(&bytes).unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns a kernel as wgpu passes it to a Vulkan driver that checks the bounds of buffers itself.
fn spirv(source: &str) -> (Module, Vec<u32>) {
    let module = common::naga::front::wgsl::parse_str(source).unwrap();
    let capabilities = Capabilities::SHADER_FLOAT16_IN_FLOAT32;
    let info = Validator::new(ValidationFlags::all(), capabilities).validate(&module).unwrap();
    let options = spv::Options {
        lang_version: (1, 6),
        flags: spv::WriterFlags::empty(),
        bounds_check_policies: BoundsCheckPolicies {
            index: BoundsCheckPolicy::Restrict,
            buffer: BoundsCheckPolicy::Unchecked,
            image_load: BoundsCheckPolicy::Unchecked,
            binding_array: BoundsCheckPolicy::Unchecked,
        },
        zero_initialize_workgroup_memory: spv::ZeroInitializeWorkgroupMemoryMode::None,
        force_loop_bounding: true,
        ..spv::Options::default()
    };
    let entry = spv::PipelineOptions { shader_stage: common::naga::ShaderStage::Compute, entry_point: "main".into() };
    let words = spv::write_vec(&module, &info, &options, Some(&entry)).unwrap();
    (module, words)
}
