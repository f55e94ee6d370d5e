"""Names that tinygrad programs import from inside its compiler and runtime, and that Lathe has nothing for: they can be
imported and asked about with `isinstance`, and say so when they are used. Any other name is an AttributeError."""

from lathe._core import UserError

# By module.
_NAMES = {
    "codegen": (
        "RewriteStep apply_rewrites do_compile do_linearize do_render full_rewrite full_rewrite_to_sink "
        "get_rewrites_for_renderer get_rewrites_for_renderer_list line_rewrite pm_to_program "
        "rewrites_for_linearizer to_program"
    ),
    "codegen.gpudims": "add_gpudims get_grouped_dims pm_add_gpudims",
    "codegen.kernel": "Kernel LinearizerOptions Lowerer TensorCore",
    "codegen.opt": "hand_coded_optimizations",
    "codegen.opt.kernel": "Kernel TensorCore TensorCoreOptions axis_colors axis_letters axis_to_pos",
    "codegen.opt.postrange": "Scheduler apply_opts args_from_ast",
    "codegen.opt.search": (
        "BEAM_DEBUG TimeoutException _time_program _try_compile_linearized_w_idx actions beam_search "
        "bufs_from_lin get_kernel_actions get_linearizer_actions get_test_global_size optimize_local_size "
        "time_linearizer timeout_handler"
    ),
    "codegen.simplify": "pm_flatten_range pm_load_collapse pm_reduce_simplify pm_simplify_ranges pm_split_ranges",
    "device": (
        "ALL_DEVICES Allocator Buffer BufferOptions BufferSpec Compiled Compiler CompilerOptions CompilerPair "
        "CompilerSet DepsTracker DeviceType Interpreted JITRunner LRUAllocator MallocAllocator MultiBuffer "
        "PerfEvent ProfileDeviceEvent ProfileGraphEntry ProfileGraphEvent ProfileProgramEvent "
        "ProfileRangeEvent Program Runner Sampler TinyELF enumerate_devices_str finalize_profile"
    ),
    "dtype": (
        "ConstFloat DTypeMetaClass DTypes FmtStr ImageDType Invalid InvalidType PtrDType promo_lattice "
        "storage_fmt_for_dtype weak_dtype"
    ),
    "engine.grouper": (
        "Kernel break_sched create_kernels do_fuse get_becomes_map get_kernelize_map group_realizes "
        "merge_views ops_folding sym view_left view_right"
    ),
    "engine.jit": (
        "CapturedJit GraphException GraphRunner MultiGraphRunner ReturnType apply_graph_to_jit "
        "create_graph_call get_input_replace graph_class graph_split_rewrite jit_lower prune_linear "
        "update_depends"
    ),
    "engine.memory": "_internal_memory_planner memory_plan_rewrite memory_planner",
    "engine.realize": (
        "BufferCopy BufferXfer CompiledRunner EmptyOp ExecContext ExecItem Runner ViewOp capturing "
        "compile_linear estimate_uop get_kernel get_program get_runner get_runtime lower_schedule "
        "lower_schedule_item method_cache optimize_local_size pm_beam pm_exec resolve_params si_lowerer "
        "time_call track_stats update_depends"
    ),
    "engine.schedule": (
        "LazyBuffer ScheduleContext ScheduleItem complete_create_schedule_with_vars create_schedule "
        "create_schedule_with_vars full_ast_rewrite merge_views remove_movement_ops st_fixup sym view_left "
        "view_right"
    ),
    "engine.search": (
        "_time_program actions beam_search bufs_from_lin get_kernel_actions get_linearizer_actions "
        "optimize_local_size time_linearizer"
    ),
    "helpers": (
        "DISK_COPY Metadata ProfileEvent ProfilePointEvent ProfileRangeEvent T Target TracingKey U "
        "amdgpu_disassemble capstone_flatdump cpu_events cpu_objdump cpu_time_execution fetch_fw gc_start "
        "gen_image get_location init_c_struct_t init_c_var is_image_shape launch_viz lines pretty_print "
        "print_tree"
    ),
    "renderer": "Estimates Program ProgramSpec TensorCore tc_sym",
    "renderer.cstyle": (
        "AMDHIPRenderer AMDRenderer DSPRenderer HIPCCRenderer HIPRenderer IntelRenderer NVCCRenderer "
        "NVRenderer QCOMCLRenderer QCOMRenderer create_non_native_float_pats uops_to_dtypes"
    ),
    "renderer.llvmir": "AMDLLVMRenderer CPULLVMRenderer",
    "renderer.nir": "IR3Renderer LVPRenderer NAKRenderer",
    "renderer.ptx": "ptx_matcher",
    "renderer.wgsl": "wgsl_matcher",
    "runtime.graph.hcq": "HCQGraph",
    "runtime.ops_python": "PythonAllocator PythonCompiler PythonDevice PythonProgram PythonRenderer generic_wmma_helper load",
    "runtime.support.hcq": (
        "ArgsStateType CLikeArgsState FileIOInterface HCQAllocator HCQAllocatorBase HCQArgsState HCQBuffer "
        "HCQCompiled HCQDeviceType HCQProgram HCQSignal HWQueue MMIOInterface ProgramType SignalType "
        "hcq_filter_visible_devices hcq_profile"
    ),
    "schedule": "create_linear_with_vars create_schedule schedule_cache",
    "schedule.indexing": "BufferizeOpts IndexingContext apply_movement_op run_rangeify",
    "schedule.rangeify": "Kernel earliest_rewrites get_kernel_graph pm_mops rangeify_codegen split_kernels split_reduceop",
    "shape.shapetracker": "ShapeTracker View apply_mop get_contraction overflow views_to_indexed_uops",
    "shape.view": "View canonicalize_strides get_contraction merge_dims strides_for_shape",
    "tensor": (
        "Function _METADATA _apply_map_to_tensors _broadcast_shape _flat_to_grouped _masked_setitem "
        "_metadata_wrapper all_metadata all_tensors get_shape"
    ),
    "uop.ops": (
        "AxisType BinaryOps BottomUpGate BufferOps CallInfo ConstLike GroupOp KernelInfo LoadOps MetaOps "
        "MovementOps Ops ParamArg PatternMatcher ProgramInfo REWRITE_STACK_LIMIT ReduceOps RewriteContext "
        "RewriteTrace SENTINEL TRACK_MATCH_STATS TernaryOps TrackedGraphRewrite TrackedPatternMatcher "
        "UOpMetaClass UPat UnaryOps active_group active_rewrites add_trace_group all_metadata axis_colors "
        "axis_letters axis_to_pos broadcast_axes buffers can_pad consumer_map_from_toposort "
        "deconstruct_function do_unbind dtype_from_uop exec_alu gate_kernel_sink get_location graph_rewrite "
        "graph_rewrite_map identity_element launch_viz match_stats merge_views multirange_str "
        "pm_contiguous_view_offset pm_unbind print_match_stats print_uops promo_dtype python_alu range_start "
        "range_str recursive_property remove_all_tags replay_capture rewrite_group safe_exp2 safe_pow "
        "save_to_diskcache shape_to_shape_arg sint_to_uop smax smin srender ssimplify symbolic_flat "
        "to_max_shape track_rewrites tracked_ctxs tracked_keys type_verify ucount uop_fields "
        "upat_deferred_compile upat_interpret view_supported_devices"
    ),
    "uop.spec": (
        "ast_spec eval_pyrender full_spec glbls is_device kernel_spec matches_dtype program_spec shared_spec "
        "spec spec_full spec_hcq spec_kernel_graph spec_program spec_shared spec_tensor tensor_spec "
        "tensor_uop_spec test_pyrender type_verify valid_gettuple validate_index"
    ),
    "uop.symbolic": (
        "REMOVE_FROM_SINK_LIKE canonicalize_simplex commutative const_arg const_folding_pat drop_and_clauses "
        "fold_add_divmod_recombine fold_bitcast fold_const_alu fold_const_where fold_where_closure "
        "gated_given_valid gep_pushing invalid_gate invalid_pat lt_folding parse_valid pm_clean_up_group_sink "
        "pm_data_invalid pm_drop_and_clauses pm_move_where_on_load pm_remove_invalid pm_simplify_valid "
        "propagate_invalid reduce_mul_chain simplify_pow simplify_valid simplify_valid_load split_uop sym "
        "symbolic symbolic_flat symbolic_simple uop_given_valid where_on_load"
    ),
}


class _Kind(type):
    def _refuse(cls, *args, **kwargs):
        raise UserError(
            f"lathe: {cls.__module__}.{cls.__qualname__} is a part of tinygrad's own compiler or runtime, which Lathe has not\n"
            "  help: docs/python/from-tinygrad.md says what is here instead"
        )

    __call__ = __iter__ = __contains__ = __getitem__ = __len__ = _refuse

    def __getattr__(cls, name):  # a member: Ops.ADD
        if name.startswith("_"):
            raise AttributeError(f"{cls.__qualname__} has no attribute {name!r}")
        member = _make(name, cls.__module__, f"{cls.__qualname__}.{name}")
        setattr(cls, name, member)
        return member


def _make(name, module, qualname):
    return _Kind(name, (), {"__module__": module, "__qualname__": qualname, "__doc__": "Not in Lathe."})


def absent(module):
    """The `__getattr__` of such a module."""
    names = frozenset(_NAMES.get(module.removeprefix("lathe."), "").split())
    made = {}

    def get(name):
        if name not in names:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        if name not in made:
            made[name] = _make(name, module, name)
        return made[name]

    return get
