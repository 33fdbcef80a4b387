! pcm.f90: libpcm for Fortran, over pcm.h. Compile it with the compiler of the program and link with -lpcm before MPI:
!
!     MPICH_CC=gfortran pcmcc -O2 pcm.f90 program.f90 -o program
!
!     use pcm
!     real(real64), pointer :: t(:, :)
!     integer, target, save :: iteration = 0
!     call pcm_array('t', t, [cols, rows], [pcm_block(2), pcm_halo(2, 1)])    ! dimension 2 is divided
!     call pcm_value('iteration', iteration)
!     call pcm_start()
!     do while (iteration < last)
!       if (pcm_iterate()) call pcm_data('t', t)                              ! ranks joined, left or moved
!       ...
!
! All is counted as Fortran does: dimension 1 is the fastest, indices begin with 1, an interval includes its last index.
! The pointer of an array has the bounds of its global indices: t(j, i) is the same element on every rank that has it,
! t(:, first - 1) and t(:, last + 1) above are the halo. Only where the library divides a dimension cyclically does the
! part begin with index 1.
!
! Each procedure takes `status` last: the code of pcm.h, PCM_OK or PCM_CHANGED if all went well. Without it a failure
! ends the program with the text of pcm_last_error. What pcm.h says about a function holds for its counterpart here.
module pcm
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int32, int64, real32, real64, error_unit
  implicit none
  private

  public :: pcm_array, pcm_adopt, pcm_data, pcm_value, pcm_value_bytes, pcm_value_per_rank, pcm_custom, pcm_pack
  public :: pcm_option, pcm_block, pcm_cyclic, pcm_weighted, pcm_counts, pcm_costs
  public :: pcm_halo, pcm_periodic, pcm_stale_halo, pcm_scratch, pcm_constant
  public :: pcm_bounds, pcm_owner, pcm_box_count, pcm_box, pcm_local_offset, pcm_local_extents, pcm_swap
  public :: pcm_start, pcm_iterate, pcm_on_change, pcm_on_exit, pcm_joining, pcm_request, pcm_remaining
  public :: pcm_possible_ranks, pcm_possible_hook
  public :: pcm_checkpoint, pcm_checkpoint_wait, pcm_active, pcm_version, pcm_last_error
  public :: pcm_hook, pcm_merge_hook, pcm_split_hook, pcm_pack_hook, pcm_unpack_hook, pcm_targets_hook, pcm_part
  public :: pcm_memory, pcm_memory_hook
  public :: pcm_set_costs, pcm_owner_list, pcm_row_numbers, pcm_row_owner, pcm_divide_hook
  public :: pcm_rows, pcm_rows_resize, pcm_row_offsets, pcm_row_entries
  public :: pcm_records, pcm_records_resize, pcm_record_data, pcm_owner_hook

  ! Results, as in pcm.h; docs/errors.md has the others.
  integer, parameter, public :: PCM_OK = 0, PCM_CHANGED = -1
  integer, parameter, public :: PCM_ERROR_STARTED = 23, PCM_ERROR_NOT_STARTED = 24
  integer, parameter, public :: PCM_ERROR_ARGUMENT = 30, PCM_ERROR_TWICE = 32, PCM_ERROR_UNKNOWN = 33
  integer, parameter, public :: PCM_ERROR_KIND = 34, PCM_ERROR_HOOK = 40, PCM_ERROR_MOVE = 41
  integer, parameter, public :: PCM_ERROR_CHECKPOINT = 42

  ! Types of elements: integer, real and complex of 32 and of 64 bits each.
  integer(c_int), parameter, public :: PCM_INT32 = 3, PCM_INT64 = 4, PCM_FLOAT = 9, PCM_DOUBLE = 10
  integer(c_int), parameter, public :: PCM_COMPLEX_FLOAT = 11, PCM_COMPLEX_DOUBLE = 12

  ! enum pcm_option_kind
  integer(c_int), parameter :: BLOCK = 1885564161, CYCLIC = BLOCK + 1, WEIGHTED = BLOCK + 2, COUNTS = BLOCK + 3
  integer(c_int), parameter :: HALO = BLOCK + 4, PERIODIC = BLOCK + 5, STALE_HALO = BLOCK + 6
  integer(c_int), parameter :: SCRATCH = BLOCK + 7, CONSTANT = BLOCK + 8, COSTS = BLOCK + 9
  ! enum pcm_split
  integer(c_int), parameter :: SPLIT_COSTS = 5

  integer, parameter :: DIMENSIONS_MAX = 3, HOOKS_MAX = 64

  ! An option of an array; the functions pcm_block and so on make it.
  type :: pcm_option
    private
    integer(c_int) :: kind = BLOCK
    integer :: dimension = 1
    integer(c_size_t) :: number = 0
    real(c_double), allocatable :: weights(:)
    integer(c_size_t), allocatable :: counts(:)
  end type

  type, bind(c) :: c_option
    integer(c_int) :: kind, axis
    integer(c_size_t) :: number
    type(c_ptr) :: list
  end type

  ! What one old rank packed for this one.
  type, bind(c) :: pcm_part
    integer(c_int) :: from
    type(c_ptr) :: data
    integer(c_size_t) :: size
  end type

  type, bind(c) :: c_custom_hooks
    type(c_ptr) :: context
    type(c_funptr) :: pack, unpack, targets
  end type

  ! Memory for a part of an adopted array: the component of its type and rank is allocated, with global indices.
  type :: pcm_memory
    integer(int32), allocatable :: int32_1(:), int32_2(:, :), int32_3(:, :, :)
    integer(int64), allocatable :: int64_1(:), int64_2(:, :), int64_3(:, :, :)
    real(real32), allocatable :: real32_1(:), real32_2(:, :), real32_3(:, :, :)
    real(real64), allocatable :: real64_1(:), real64_2(:, :), real64_3(:, :, :)
    complex(real32), allocatable :: complex32_1(:), complex32_2(:, :), complex32_3(:, :, :)
    complex(real64), allocatable :: complex64_1(:), complex64_2(:, :), complex64_3(:, :, :)
  end type

  ! Such memory, which the library has and the program has not yet.
  type :: made_part
    type(c_ptr) :: address
    type(pcm_memory) :: memory
    type(made_part), pointer :: next => null()
  end type

  ! An adopted array. The one that the program has now is not among those made.
  type :: adopted
    character(:), allocatable :: name
    integer(c_int) :: element
    integer :: dimensions
    procedure(pcm_memory_hook), pointer, nopass :: take_up => null()
    type(made_part), pointer :: made => null()
  end type

  type, bind(c) :: c_axis
    integer(c_size_t) :: extent = 0
    integer(c_int) :: split = 0
    integer(c_size_t) :: halo = 0
    integer(c_int) :: periodic = 0
    integer(c_size_t) :: number = 0
    type(c_ptr) :: list = c_null_ptr
  end type

  type, bind(c) :: c_memory_hooks
    type(c_ptr) :: context
    type(c_funptr) :: make, take_up, give_back
  end type

  ! Where a part is, in Fortran's order: the global index of its first element, and its extents.
  type :: place
    type(c_ptr) :: address
    integer :: first(DIMENSIONS_MAX), extents(DIMENSIONS_MAX)
  end type

  ! An array that was registered here, so that a pointer of another type or rank is refused.
  type :: form
    character(:), allocatable :: name
    integer :: dimensions
    integer(c_int) :: element
  end type

  abstract interface
    ! A hook of the program; another status than 0 is a failure.
    subroutine pcm_hook(status)
      integer, intent(inout) :: status
    end subroutine
    ! Moves the memory of the new part to the allocatable of the program, by move_alloc.
    subroutine pcm_memory_hook(part)
      import :: pcm_memory
      type(pcm_memory), intent(inout) :: part
    end subroutine
    ! Whether the program can run on so many ranks.
    logical function pcm_possible_hook(ranks)
      integer, intent(in) :: ranks
    end function
    ! The hooks that C calls, as pcm.h describes them; c_f_pointer makes Fortran pointers of the addresses.
    integer(c_int) function pcm_merge_hook(context, mine, other) bind(c)
      import :: c_int, c_ptr
      type(c_ptr), value :: context, mine, other
    end function
    integer(c_int) function pcm_split_hook(context, mine, share, left) bind(c)
      import :: c_int, c_ptr
      type(c_ptr), value :: context, mine, share
      integer(c_int), value :: left
    end function
    integer(c_int) function pcm_pack_hook(context, to, ranks, packer) bind(c)
      import :: c_int, c_ptr
      type(c_ptr), value :: context, packer
      integer(c_int), value :: to, ranks
    end function
    ! parts is the address of `count` elements of type(pcm_part).
    integer(c_int) function pcm_unpack_hook(context, parts, count) bind(c)
      import :: c_int, c_ptr, c_size_t
      type(c_ptr), value :: context, parts
      integer(c_size_t), value :: count
    end function
    integer(c_int) function pcm_targets_hook(context, from, ranks_before, ranks_after, targets) bind(c)
      import :: c_int, c_ptr
      type(c_ptr), value :: context
      integer(c_int), value :: from, ranks_before, ranks_after
      integer(c_int), intent(out) :: targets(*)
    end function
    integer(c_int) function pcm_divide_hook(context, ranks, owners, rows) bind(c)
      import :: c_int, c_ptr, c_size_t
      type(c_ptr), value :: context
      integer(c_int), value :: ranks
      integer(c_size_t), value :: rows
      integer(c_int), intent(inout) :: owners(rows)
    end function
    integer(c_int) function pcm_owner_hook(context, record, ranks) bind(c)
      import :: c_int, c_ptr
      type(c_ptr), value :: context, record
      integer(c_int), value :: ranks
    end function
  end interface

  type :: kept_hook
    procedure(pcm_hook), pointer, nopass :: call => null()
  end type

  type(kept_hook) :: hooks(HOOKS_MAX)
  integer, target :: numbers(HOOKS_MAX)
  integer :: hook_count = 0
  ! Set while pcm_possible_ranks asks it.
  procedure(pcm_possible_hook), pointer :: asked => null()
  type(form), allocatable :: forms(:)

  interface pcm_array
    module procedure array_int32_1, array_int32_2, array_int32_3
    module procedure array_int64_1, array_int64_2, array_int64_3
    module procedure array_real32_1, array_real32_2, array_real32_3
    module procedure array_real64_1, array_real64_2, array_real64_3
    module procedure array_complex32_1, array_complex32_2, array_complex32_3
    module procedure array_complex64_1, array_complex64_2, array_complex64_3
  end interface

  ! Makes the pointer this rank's part of an array; again after each change of the ranks and after pcm_swap.
  interface pcm_data
    module procedure data_int32_1, data_int32_2, data_int32_3
    module procedure data_int64_1, data_int64_2, data_int64_3
    module procedure data_real32_1, data_real32_2, data_real32_3
    module procedure data_real64_1, data_real64_2, data_real64_3
    module procedure data_complex32_1, data_complex32_2, data_complex32_3
    module procedure data_complex64_1, data_complex64_2, data_complex64_3
  end interface

  ! Registers a variable, of any rank, that has the same value on every rank. It needs the attributes target and save.
  interface pcm_value
    module procedure value_int32, value_int64, value_real32
    module procedure value_real64, value_complex32, value_complex64
  end interface

  interface
    function c_array_create(name, element, ndims, form) bind(c, name='pcm_array_create') result(address)
      import :: c_ptr, c_char, c_int
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int), value :: element, ndims
      type(c_ptr), intent(in) :: form(*)
      type(c_ptr) :: address
    end function
    integer(c_int) function c_adopt(name, element, ndims, axes, flags, hooks) bind(c, name='pcm_adopt')
      import :: c_char, c_int, c_axis, c_memory_hooks
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int), value :: element, ndims, flags
      type(c_axis), intent(in) :: axes(*)
      type(c_memory_hooks), intent(in) :: hooks
    end function
    function c_data(name) bind(c, name='pcm_data') result(address)
      import :: c_ptr, c_char
      character(kind=c_char), intent(in) :: name(*)
      type(c_ptr) :: address
    end function
    integer(c_int) function c_swap(one, other) bind(c, name='pcm_swap')
      import :: c_char, c_int
      character(kind=c_char), intent(in) :: one(*), other(*)
    end function
    integer(c_int) function c_bounds(name, axis, start, end) bind(c, name='pcm_bounds')
      import :: c_char, c_int, c_size_t
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int), value :: axis
      integer(c_size_t), intent(inout) :: start, end
    end function
    integer(c_int) function c_local_extents(name, extents) bind(c, name='pcm_local_extents')
      import :: c_char, c_int, c_size_t
      character(kind=c_char), intent(in) :: name(*)
      integer(c_size_t), intent(inout) :: extents(*)
    end function
    integer(c_int) function c_box_count(name, count) bind(c, name='pcm_box_count')
      import :: c_char, c_int, c_size_t
      character(kind=c_char), intent(in) :: name(*)
      integer(c_size_t), intent(inout) :: count
    end function
    integer(c_int) function c_box(name, n, start, length) bind(c, name='pcm_box')
      import :: c_char, c_int, c_size_t
      character(kind=c_char), intent(in) :: name(*)
      integer(c_size_t), value :: n
      integer(c_size_t), intent(inout) :: start(*), length(*)
    end function
    integer(c_int) function c_owner(name, index, rank) bind(c, name='pcm_owner')
      import :: c_char, c_int, c_size_t
      character(kind=c_char), intent(in) :: name(*)
      integer(c_size_t), intent(in) :: index(*)
      integer(c_int), intent(inout) :: rank
    end function
    integer(c_int) function c_local_offset(name, index, offset) bind(c, name='pcm_local_offset')
      import :: c_char, c_int, c_size_t
      character(kind=c_char), intent(in) :: name(*)
      integer(c_size_t), intent(in) :: index(*)
      integer(c_size_t), intent(inout) :: offset
    end function
    integer(c_int) function c_start() bind(c, name='pcm_start')
      import :: c_int
    end function
    integer(c_int) function c_iterate() bind(c, name='pcm_iterate')
      import :: c_int
    end function
    integer(c_int) function c_checkpoint() bind(c, name='pcm_checkpoint')
      import :: c_int
    end function
    integer(c_int) function c_checkpoint_wait() bind(c, name='pcm_checkpoint_wait')
      import :: c_int
    end function
    integer(c_int) function c_joining() bind(c, name='pcm_joining')
      import :: c_int
    end function
    integer(c_int) function c_request(ranks) bind(c, name='pcm_request')
      import :: c_int
      integer(c_int), value :: ranks
    end function
    integer(c_int) function c_remaining(iterations) bind(c, name='pcm_remaining')
      import :: c_int, c_long_long
      integer(c_long_long), value :: iterations
    end function
    integer(c_int) function c_active(active) bind(c, name='pcm_active')
      import :: c_int
      integer(c_int), intent(inout) :: active
    end function
    integer(c_int) function c_possible_ranks(is_possible, context) bind(c, name='pcm_possible_ranks')
      import :: c_int, c_funptr, c_ptr
      type(c_funptr), value :: is_possible
      type(c_ptr), value :: context
    end function
    integer(c_int) function c_on_change(hook, context) bind(c, name='pcm_on_change')
      import :: c_int, c_funptr, c_ptr
      type(c_funptr), value :: hook
      type(c_ptr), value :: context
    end function
    integer(c_int) function c_on_exit(hook, context) bind(c, name='pcm_on_exit')
      import :: c_int, c_funptr, c_ptr
      type(c_funptr), value :: hook
      type(c_ptr), value :: context
    end function
    integer(c_int) function c_value(name, value, size) bind(c, name='pcm_value')
      import :: c_char, c_int, c_ptr, c_size_t
      character(kind=c_char), intent(in) :: name(*)
      type(c_ptr), value :: value
      integer(c_size_t), value :: size
    end function
    integer(c_int) function c_value_per_rank(name, value, size, merge, split, context) &
        bind(c, name='pcm_value_per_rank')
      import :: c_char, c_int, c_ptr, c_funptr, c_size_t
      character(kind=c_char), intent(in) :: name(*)
      type(c_ptr), value :: value, context
      integer(c_size_t), value :: size
      type(c_funptr), value :: merge, split
    end function
    integer(c_int) function c_custom(name, hooks) bind(c, name='pcm_custom')
      import :: c_char, c_int, c_custom_hooks
      character(kind=c_char), intent(in) :: name(*)
      type(c_custom_hooks), intent(in) :: hooks
    end function
    integer(c_int) function c_pack(packer, data, size) bind(c, name='pcm_pack')
      import :: c_int, c_ptr, c_size_t
      type(c_ptr), value :: packer, data
      integer(c_size_t), value :: size
    end function
    integer(c_int) function c_set_costs(name, axis, costs_of_elements) bind(c, name='pcm_set_costs')
      import :: c_char, c_double, c_int
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int), value :: axis
      real(c_double), intent(in) :: costs_of_elements(*)
    end function
    integer(c_int) function c_owner_list(name, rows, owners, divide, context) bind(c, name='pcm_owner_list')
      import :: c_char, c_funptr, c_int, c_ptr, c_size_t
      character(kind=c_char), intent(in) :: name(*)
      integer(c_size_t), value :: rows
      type(c_ptr), value :: owners, context
      type(c_funptr), value :: divide
    end function
    function c_row_numbers(name, count) bind(c, name='pcm_row_numbers') result(address)
      import :: c_char, c_ptr, c_size_t
      character(kind=c_char), intent(in) :: name(*)
      integer(c_size_t), intent(inout) :: count
      type(c_ptr) :: address
    end function
    integer(c_int) function c_rows(name, like, columns, entry_sizes) bind(c, name='pcm_rows')
      import :: c_char, c_int, c_size_t
      character(kind=c_char), intent(in) :: name(*), like(*)
      integer(c_int), value :: columns
      integer(c_size_t), intent(in) :: entry_sizes(*)
    end function
    integer(c_int) function c_rows_resize(name, lengths) bind(c, name='pcm_rows_resize')
      import :: c_char, c_int, c_size_t
      character(kind=c_char), intent(in) :: name(*)
      integer(c_size_t), intent(in) :: lengths(*)
    end function
    function c_row_offsets(name) bind(c, name='pcm_row_offsets') result(address)
      import :: c_char, c_ptr
      character(kind=c_char), intent(in) :: name(*)
      type(c_ptr) :: address
    end function
    function c_row_entries(name, column) bind(c, name='pcm_row_entries') result(address)
      import :: c_char, c_int, c_ptr
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int), value :: column
      type(c_ptr) :: address
    end function
    integer(c_int) function c_records(name, size, owner, context) bind(c, name='pcm_records')
      import :: c_char, c_funptr, c_int, c_ptr, c_size_t
      character(kind=c_char), intent(in) :: name(*)
      integer(c_size_t), value :: size
      type(c_funptr), value :: owner
      type(c_ptr), value :: context
    end function
    function c_records_resize(name, count) bind(c, name='pcm_records_resize') result(address)
      import :: c_char, c_ptr, c_size_t
      character(kind=c_char), intent(in) :: name(*)
      integer(c_size_t), value :: count
      type(c_ptr) :: address
    end function
    function c_record_data(name, count) bind(c, name='pcm_record_data') result(address)
      import :: c_char, c_ptr, c_size_t
      character(kind=c_char), intent(in) :: name(*)
      integer(c_size_t), intent(out) :: count
      type(c_ptr) :: address
    end function
    function c_version() bind(c, name='pcm_version') result(text)
      import :: c_ptr
      type(c_ptr) :: text
    end function
    function c_last_error() bind(c, name='pcm_last_error') result(text)
      import :: c_ptr
      type(c_ptr) :: text
    end function
    integer(c_size_t) function c_strlen(text) bind(c, name='strlen')
      import :: c_ptr, c_size_t
      type(c_ptr), value :: text
    end function
  end interface

contains

  ! ---- options of arrays: how a dimension is divided, or what an array is for; see PCM_BLOCK and so on in pcm.h ------

  function pcm_block(dimension) result(option)
    integer, intent(in) :: dimension
    type(pcm_option) :: option
    option%dimension = dimension
  end function

  function pcm_cyclic(dimension, length) result(option)
    integer, intent(in) :: dimension, length
    type(pcm_option) :: option
    option = pcm_option(kind=CYCLIC, dimension=dimension, number=int(length, c_size_t))
  end function

  function pcm_weighted(dimension, weights) result(option)
    integer, intent(in) :: dimension
    real(real64), intent(in) :: weights(:)
    type(pcm_option) :: option
    option = pcm_option(kind=WEIGHTED, dimension=dimension, number=size(weights, kind=c_size_t))
    option%weights = weights
  end function

  function pcm_counts(dimension, counts_of_ranks) result(option)
    integer, intent(in) :: dimension, counts_of_ranks(:)
    type(pcm_option) :: option
    option = pcm_option(kind=COUNTS, dimension=dimension, number=size(counts_of_ranks, kind=c_size_t))
    option%counts = int(counts_of_ranks, c_size_t)
  end function

  ! One cost for each element of the dimension: the parts of all ranks cost about the same.
  function pcm_costs(dimension, costs_of_elements) result(option)
    integer, intent(in) :: dimension
    real(real64), intent(in) :: costs_of_elements(:)
    type(pcm_option) :: option
    option = pcm_option(kind=COSTS, dimension=dimension, number=size(costs_of_elements, kind=c_size_t))
    option%weights = costs_of_elements
  end function

  function pcm_halo(dimension, width) result(option)
    integer, intent(in) :: dimension, width
    type(pcm_option) :: option
    option = pcm_option(kind=HALO, dimension=dimension, number=int(width, c_size_t))
  end function

  function pcm_periodic(dimension) result(option)
    integer, intent(in) :: dimension
    type(pcm_option) :: option
    option = pcm_option(kind=PERIODIC, dimension=dimension)
  end function

  function pcm_stale_halo() result(option)
    type(pcm_option) :: option
    option = pcm_option(kind=STALE_HALO)
  end function

  function pcm_scratch() result(option)
    type(pcm_option) :: option
    option = pcm_option(kind=SCRATCH)
  end function

  function pcm_constant() result(option)
    type(pcm_option) :: option
    option = pcm_option(kind=CONSTANT)
  end function

  ! ---- arrays -------------------------------------------------------------------------------------------------------

  ! Registers an array of Fortran's extents; the library's axis 0 is Fortran's last dimension.
  logical function created(name, element, extents, options, status)
    character(*), intent(in) :: name
    integer(c_int), intent(in) :: element
    integer, intent(in) :: extents(:)
    type(pcm_option), target, intent(in) :: options(:)
    integer, optional, intent(out) :: status
    integer(c_size_t), target :: lengths(DIMENSIONS_MAX)
    type(c_option), target :: in_c(size(options))
    type(c_ptr) :: entries(size(options) + 2)
    integer :: i, n
    n = size(extents)
    lengths(1:n) = int(extents(n:1:-1), c_size_t)
    entries(1) = c_loc(lengths)
    do i = 1, size(options)
      in_c(i) = c_option(options(i)%kind, 0, options(i)%number, c_null_ptr)
      if (options(i)%kind < STALE_HALO .or. options(i)%kind == COSTS) in_c(i)%axis = int(n - options(i)%dimension, c_int)
      if (allocated(options(i)%weights)) in_c(i)%list = c_loc(options(i)%weights)
      if (allocated(options(i)%counts)) in_c(i)%list = c_loc(options(i)%counts)
      entries(i + 1) = c_loc(in_c(i))
    end do
    entries(size(entries)) = c_null_ptr
    created = c_associated(c_array_create(in_c_text(name), element, int(n, c_int), entries))
    if (created) then
      call know(name, n, element)
      call tell(int(PCM_OK, c_int), status)
    else
      call tell(int(PCM_ERROR_ARGUMENT, c_int), status)
    end if
  end function

  subroutine know(name, dimensions, element)
    character(*), intent(in) :: name
    integer, intent(in) :: dimensions
    integer(c_int), intent(in) :: element
    if (.not. allocated(forms)) allocate(forms(0))
    forms = [forms, form(trim(name), dimensions, element)]
  end subroutine

  ! Where this rank's part of an array of that form is.
  logical function found(name, dimensions, element, at, status)
    character(*), intent(in) :: name
    integer, intent(in) :: dimensions
    integer(c_int), intent(in) :: element
    type(place), intent(out) :: at
    integer, optional, intent(out) :: status
    integer :: i
    at%address = c_data(in_c_text(name))
    found = c_associated(at%address)
    if (.not. found) then
      call tell(int(PCM_ERROR_UNKNOWN, c_int), status)
      return
    end if
    if (allocated(forms)) then
      do i = 1, size(forms)
        if (forms(i)%name == trim(name)) &
          found = forms(i)%dimensions == dimensions .and. forms(i)%element == element
      end do
    end if
    if (.not. found) then
      call tell(int(PCM_ERROR_KIND, c_int), status, 'array "' // trim(name) // '": the pointer has another type or rank')
      return
    end if
    call tell(placed(name, dimensions, at), status)
  end function

  ! Writes the first index and the extents of this rank's part, halo included.
  integer(c_int) function placed(name, dimensions, at)
    character(*), intent(in) :: name
    integer, intent(in) :: dimensions
    type(place), intent(inout) :: at
    integer(c_size_t) :: lengths(DIMENSIONS_MAX), start, end
    integer :: i
    lengths = 0
    placed = c_local_extents(in_c_text(name), lengths)
    at%first = 1
    at%extents = 1
    do i = 1, dimensions
      at%extents(i) = int(lengths(dimensions + 1 - i))
      if (c_bounds(in_c_text(name), int(dimensions - i, c_int), start, end) == PCM_OK) &
        at%first(i) = int(start) + 1 - (at%extents(i) - int(end - start)) / 2
    end do
  end function

  ! The global indices of a dimension that this rank owns, from first to last; last is first - 1 if it owns none.
  subroutine pcm_bounds(name, dimension, first, last, status)
    character(*), intent(in) :: name
    integer, intent(in) :: dimension
    integer, intent(out) :: first, last
    integer, optional, intent(out) :: status
    integer(c_size_t) :: start, end
    start = 0
    end = 0
    call tell(c_bounds(in_c_text(name), axis_of(name, dimension), start, end), status)
    first = int(start) + 1
    last = int(end)
  end subroutine

  ! The number of elements of the part along each dimension, halo included.
  subroutine pcm_local_extents(name, extents, status)
    character(*), intent(in) :: name
    integer, intent(out) :: extents(:)
    integer, optional, intent(out) :: status
    integer(c_size_t) :: lengths(DIMENSIONS_MAX)
    integer :: n
    lengths = 0
    call tell(c_local_extents(in_c_text(name), lengths), status)
    n = dimensions_of(name)
    extents(1:n) = int(lengths(n:1:-1))
  end subroutine

  subroutine pcm_box_count(name, count, status)
    character(*), intent(in) :: name
    integer, intent(out) :: count
    integer, optional, intent(out) :: status
    integer(c_size_t) :: number
    number = 0
    call tell(c_box_count(in_c_text(name), number), status)
    count = int(number)
  end subroutine

  ! The first and the last global index of box n, from 1, along each dimension.
  subroutine pcm_box(name, n, first, last, status)
    character(*), intent(in) :: name
    integer, intent(in) :: n
    integer, intent(out) :: first(:), last(:)
    integer, optional, intent(out) :: status
    integer(c_size_t) :: start(DIMENSIONS_MAX), length(DIMENSIONS_MAX)
    integer :: d
    start = 0
    length = 0
    call tell(c_box(in_c_text(name), int(n - 1, c_size_t), start, length), status)
    d = dimensions_of(name)
    first(1:d) = int(start(d:1:-1)) + 1
    last(1:d) = int(start(d:1:-1) + length(d:1:-1))
  end subroutine

  ! The rank that owns a global index, one number per dimension.
  subroutine pcm_owner(name, index, rank, status)
    character(*), intent(in) :: name
    integer, intent(in) :: index(:)
    integer, intent(out) :: rank
    integer, optional, intent(out) :: status
    integer(c_int) :: owner
    owner = -1
    call tell(c_owner(in_c_text(name), in_c_index(name, index), owner), status)
    rank = owner
  end subroutine

  ! The position, from 1, at which this rank stores a global index that it owns.
  subroutine pcm_local_offset(name, index, position, status)
    character(*), intent(in) :: name
    integer, intent(in) :: index(:)
    integer(int64), intent(out) :: position
    integer, optional, intent(out) :: status
    integer(c_size_t) :: offset
    offset = 0
    call tell(c_local_offset(in_c_text(name), in_c_index(name, index), offset), status)
    position = int(offset, int64) + 1
  end subroutine

  ! Exchanges two arrays of the same form; call pcm_data for both afterwards.
  subroutine pcm_swap(one, other, status)
    character(*), intent(in) :: one, other
    integer, optional, intent(out) :: status
    call tell(c_swap(in_c_text(one), in_c_text(other)), status)
  end subroutine

  ! ---- arrays in allocatables of the program ------------------------------------------------------------------------

  ! Registers an array whose part on this rank is an allocatable of the program, which needs the attributes target and
  ! save. The hook gives it its memory, zeroed, in this call and in each change. The program must not allocate it.
  subroutine pcm_adopt(name, element, take_up, extents, options, status)
    character(*), intent(in) :: name
    integer, intent(in) :: element
    procedure(pcm_memory_hook) :: take_up
    integer, intent(in) :: extents(:)
    type(pcm_option), target, intent(in) :: options(:)
    integer, optional, intent(out) :: status
    type(c_axis) :: axes(size(extents))
    type(adopted), pointer :: own
    type(c_memory_hooks) :: hooks
    integer(c_int) :: flags, result
    integer :: i, n
    n = size(extents)
    axes%extent = int(extents(n:1:-1), c_size_t)
    flags = 0
    do i = 1, size(options)
      if (options(i)%dimension < 1 .or. options(i)%dimension > n) then
        call tell(int(PCM_ERROR_ARGUMENT, c_int), status, 'array "' // trim(name) // '" lacks a dimension of an option')
        return
      end if
      call describe(options(i), axes(n + 1 - options(i)%dimension), flags)
    end do
    allocate(own)
    own%name = trim(name)
    own%element = int(element, c_int)
    own%dimensions = n
    own%take_up => take_up
    hooks = c_memory_hooks(c_loc(own), c_funloc(make_part), c_funloc(take_up_part), c_funloc(give_back_part))
    result = c_adopt(in_c_text(name), own%element, int(n, c_int), axes, flags, hooks)
    if (result == PCM_OK) then
      call know(name, n, own%element)
    else
      deallocate(own)
    end if
    call tell(result, status)
  end subroutine

  ! What an option says of its axis, or of the whole array by flags of pcm_flag.
  subroutine describe(option, axis, flags)
    type(pcm_option), target, intent(in) :: option
    type(c_axis), intent(inout) :: axis
    integer(c_int), intent(inout) :: flags
    select case (option%kind)
    case (SCRATCH)
      flags = ior(flags, 1_c_int)
    case (CONSTANT)
      flags = ior(flags, 2_c_int)
    case (STALE_HALO)
      flags = ior(flags, 4_c_int)
    case (HALO)
      axis%halo = option%number
    case (PERIODIC)
      axis%periodic = 1
    case default
      axis%split = merge(SPLIT_COSTS, option%kind - BLOCK + 1, option%kind == COSTS)
      axis%number = option%number
      if (allocated(option%weights)) axis%list = c_loc(option%weights)
      if (allocated(option%counts)) axis%list = c_loc(option%counts)
    end select
  end subroutine

  ! The hook make of pcm.h: the library says which part it makes. A part of no bytes has an address, too.
  function make_part(context, bytes) bind(c) result(address)
    type(c_ptr), value :: context
    integer(c_size_t), value :: bytes
    type(c_ptr) :: address
    type(adopted), pointer :: own
    type(made_part), pointer :: part
    type(place) :: at
    call c_f_pointer(context, own)
    address = c_null_ptr
    if (placed(own%name, own%dimensions, at) /= PCM_OK) return
    allocate(part)
    part%address = allocated_part(part%memory, own%element * 10 + own%dimensions, at%first, at%first + at%extents - 1)
    if (bytes == 0) part%address = c_loc(part)
    address = part%address
    if (c_associated(address)) then
      part%next => own%made
      own%made => part
    else
      deallocate(part)
    end if
  end function

  ! `form` is ten times the type and the rank; f and l are the first and the last indices.
  function allocated_part(memory, form, f, l) result(address)
    type(pcm_memory), target, intent(inout) :: memory
    integer, intent(in) :: form, f(DIMENSIONS_MAX), l(DIMENSIONS_MAX)
    type(c_ptr) :: address
    integer :: failed
    failed = 1
    address = c_null_ptr
    select case (form)
    case (10 * PCM_INT32 + 1)
      allocate(memory%int32_1(f(1):l(1)), stat=failed)
      if (failed == 0) address = c_loc(memory%int32_1)
    case (10 * PCM_INT32 + 2)
      allocate(memory%int32_2(f(1):l(1), f(2):l(2)), stat=failed)
      if (failed == 0) address = c_loc(memory%int32_2)
    case (10 * PCM_INT32 + 3)
      allocate(memory%int32_3(f(1):l(1), f(2):l(2), f(3):l(3)), stat=failed)
      if (failed == 0) address = c_loc(memory%int32_3)
    case (10 * PCM_INT64 + 1)
      allocate(memory%int64_1(f(1):l(1)), stat=failed)
      if (failed == 0) address = c_loc(memory%int64_1)
    case (10 * PCM_INT64 + 2)
      allocate(memory%int64_2(f(1):l(1), f(2):l(2)), stat=failed)
      if (failed == 0) address = c_loc(memory%int64_2)
    case (10 * PCM_INT64 + 3)
      allocate(memory%int64_3(f(1):l(1), f(2):l(2), f(3):l(3)), stat=failed)
      if (failed == 0) address = c_loc(memory%int64_3)
    case (10 * PCM_FLOAT + 1)
      allocate(memory%real32_1(f(1):l(1)), stat=failed)
      if (failed == 0) address = c_loc(memory%real32_1)
    case (10 * PCM_FLOAT + 2)
      allocate(memory%real32_2(f(1):l(1), f(2):l(2)), stat=failed)
      if (failed == 0) address = c_loc(memory%real32_2)
    case (10 * PCM_FLOAT + 3)
      allocate(memory%real32_3(f(1):l(1), f(2):l(2), f(3):l(3)), stat=failed)
      if (failed == 0) address = c_loc(memory%real32_3)
    case (10 * PCM_DOUBLE + 1)
      allocate(memory%real64_1(f(1):l(1)), stat=failed)
      if (failed == 0) address = c_loc(memory%real64_1)
    case (10 * PCM_DOUBLE + 2)
      allocate(memory%real64_2(f(1):l(1), f(2):l(2)), stat=failed)
      if (failed == 0) address = c_loc(memory%real64_2)
    case (10 * PCM_DOUBLE + 3)
      allocate(memory%real64_3(f(1):l(1), f(2):l(2), f(3):l(3)), stat=failed)
      if (failed == 0) address = c_loc(memory%real64_3)
    case (10 * PCM_COMPLEX_FLOAT + 1)
      allocate(memory%complex32_1(f(1):l(1)), stat=failed)
      if (failed == 0) address = c_loc(memory%complex32_1)
    case (10 * PCM_COMPLEX_FLOAT + 2)
      allocate(memory%complex32_2(f(1):l(1), f(2):l(2)), stat=failed)
      if (failed == 0) address = c_loc(memory%complex32_2)
    case (10 * PCM_COMPLEX_FLOAT + 3)
      allocate(memory%complex32_3(f(1):l(1), f(2):l(2), f(3):l(3)), stat=failed)
      if (failed == 0) address = c_loc(memory%complex32_3)
    case (10 * PCM_COMPLEX_DOUBLE + 1)
      allocate(memory%complex64_1(f(1):l(1)), stat=failed)
      if (failed == 0) address = c_loc(memory%complex64_1)
    case (10 * PCM_COMPLEX_DOUBLE + 2)
      allocate(memory%complex64_2(f(1):l(1), f(2):l(2)), stat=failed)
      if (failed == 0) address = c_loc(memory%complex64_2)
    case (10 * PCM_COMPLEX_DOUBLE + 3)
      allocate(memory%complex64_3(f(1):l(1), f(2):l(2), f(3):l(3)), stat=failed)
      if (failed == 0) address = c_loc(memory%complex64_3)
    end select
  end function

  subroutine take_up_part(context, address, bytes) bind(c)
    type(c_ptr), value :: context, address
    integer(c_size_t), value :: bytes
    type(adopted), pointer :: own
    type(made_part), pointer :: part
    call c_f_pointer(context, own)
    part => found_part(own, address)
    if (.not. associated(part) .or. bytes < 0) return
    call own%take_up(part%memory)
    deallocate(part)
  end subroutine

  subroutine give_back_part(context, address) bind(c)
    type(c_ptr), value :: context, address
    type(adopted), pointer :: own
    type(made_part), pointer :: part
    call c_f_pointer(context, own)
    part => found_part(own, address)
    if (associated(part)) deallocate(part)
  end subroutine

  ! Takes the part at an address out of those made.
  function found_part(own, address) result(part)
    type(adopted), intent(inout) :: own
    type(c_ptr), intent(in) :: address
    type(made_part), pointer :: part, before
    nullify(before)
    part => own%made
    do while (associated(part))
      if (c_associated(part%address, address)) exit
      before => part
      part => part%next
    end do
    if (.not. associated(part)) return
    if (associated(before)) then
      before%next => part%next
    else
      own%made => part%next
    end if
  end function

  ! ---- the run ------------------------------------------------------------------------------------------------------

  subroutine pcm_start(status)
    integer, optional, intent(out) :: status
    call tell(c_start(), status)
  end subroutine

  ! The top of an iteration: true if ranks joined, left or moved.
  logical function pcm_iterate(status)
    integer, optional, intent(out) :: status
    integer(c_int) :: result
    result = c_iterate()
    pcm_iterate = result == PCM_CHANGED
    call tell(result, status)
  end function

  logical function pcm_joining()
    pcm_joining = c_joining() == 1
  end function

  subroutine pcm_request(ranks, status)
    integer, intent(in) :: ranks
    integer, optional, intent(out) :: status
    call tell(c_request(int(ranks, c_int)), status)
  end subroutine

  ! Says on which numbers of ranks the program can run, before pcm_start.
  subroutine pcm_possible_ranks(is_possible, status)
    procedure(pcm_possible_hook) :: is_possible
    integer, optional, intent(out) :: status
    integer(c_int) :: result
    asked => is_possible
    result = c_possible_ranks(c_funloc(possible), c_null_ptr)
    asked => null()
    call tell(result, status)
  end subroutine

  integer(c_int) function possible(context, ranks) bind(c)
    type(c_ptr), value :: context
    integer(c_int), value :: ranks
    possible = 0
    if (c_associated(context)) return
    if (asked(int(ranks))) possible = 1
  end function

  subroutine pcm_remaining(iterations, status)
    integer, intent(in) :: iterations
    integer, optional, intent(out) :: status
    call tell(c_remaining(int(iterations, c_long_long)), status)
  end subroutine

  subroutine pcm_checkpoint(status)
    integer, optional, intent(out) :: status
    call tell(c_checkpoint(), status)
  end subroutine

  subroutine pcm_checkpoint_wait(status)
    integer, optional, intent(out) :: status
    call tell(c_checkpoint_wait(), status)
  end subroutine

  ! True if a daemon started this program.
  logical function pcm_active(status)
    integer, optional, intent(out) :: status
    integer(c_int) :: active
    active = 0
    call tell(c_active(active), status)
    pcm_active = active == 1
  end function

  function pcm_version() result(text)
    character(:), allocatable :: text
    text = from_c(c_version())
  end function

  function pcm_last_error() result(text)
    character(:), allocatable :: text
    text = from_c(c_last_error())
  end function

  ! ---- values, hooks, custom data -----------------------------------------------------------------------------------

  ! As pcm_value, for variables of other types: address by c_loc, size in bytes.
  subroutine pcm_value_bytes(name, address, size, status)
    character(*), intent(in) :: name
    type(c_ptr), intent(in) :: address
    integer, intent(in) :: size
    integer, optional, intent(out) :: status
    call tell(c_value(in_c_text(name), address, int(size, c_size_t)), status)
  end subroutine

  ! Registers a variable that has a separate value on each rank: its address by c_loc, its size in bytes.
  subroutine pcm_value_per_rank(name, address, size, merge, split, context, status)
    character(*), intent(in) :: name
    type(c_ptr), intent(in) :: address
    integer, intent(in) :: size
    procedure(pcm_merge_hook), optional :: merge
    procedure(pcm_split_hook), optional :: split
    type(c_ptr), optional, intent(in) :: context
    integer, optional, intent(out) :: status
    type(c_funptr) :: both(2)
    type(c_ptr) :: passed
    both = c_null_funptr
    passed = c_null_ptr
    if (present(merge)) both(1) = c_funloc(merge)
    if (present(split)) both(2) = c_funloc(split)
    if (present(context)) passed = context
    call tell(c_value_per_rank(in_c_text(name), address, int(size, c_size_t), both(1), both(2), passed), status)
  end subroutine

  ! Registers data that only the program can interpret: see pcm_custom_hooks in pcm.h.
  subroutine pcm_custom(name, pack, unpack, targets, context, status)
    character(*), intent(in) :: name
    procedure(pcm_pack_hook) :: pack
    procedure(pcm_unpack_hook) :: unpack
    procedure(pcm_targets_hook), optional :: targets
    type(c_ptr), optional, intent(in) :: context
    integer, optional, intent(out) :: status
    type(c_custom_hooks) :: all
    all = c_custom_hooks(c_null_ptr, c_funloc(pack), c_funloc(unpack), c_null_funptr)
    if (present(targets)) all%targets = c_funloc(targets)
    if (present(context)) all%context = context
    call tell(c_custom(in_c_text(name), all), status)
  end subroutine

  ! Appends bytes to the output of a pack hook; returns what the hook returns.
  integer(c_int) function pcm_pack(packer, address, size)
    type(c_ptr), intent(in) :: packer, address
    integer, intent(in) :: size
    pcm_pack = c_pack(packer, address, int(size, c_size_t))
  end function

  ! Gives the elements along a dimension, which is divided in blocks, new costs: the next change divides by them.
  subroutine pcm_set_costs(name, dimension, costs_of_elements, status)
    character(*), intent(in) :: name
    integer, intent(in) :: dimension
    real(real64), intent(in) :: costs_of_elements(:)
    integer, optional, intent(out) :: status
    integer(c_int) :: axis
    axis = int(dimensions_of(name) - dimension, c_int)
    call tell(c_set_costs(in_c_text(name), axis, costs_of_elements), status)
  end subroutine

  ! ---- rows of different lengths, records ---------------------------------------------------------------------------

  ! Registers the owners of rows to be divided by a list, each a rank, counted from 0; without it the rows are in equal
  ! blocks. When the number of ranks changes, `divide` writes the next owners over the list; without it the library
  ! does.
  subroutine pcm_owner_list(name, rows, owners, divide, context, status)
    character(*), intent(in) :: name
    integer, intent(in) :: rows
    integer, optional, intent(in) :: owners(:)
    procedure(pcm_divide_hook), optional :: divide
    type(c_ptr), optional, intent(in) :: context
    integer, optional, intent(out) :: status
    integer(c_int), allocatable, target :: in_c(:)
    type(c_ptr) :: first, passed
    type(c_funptr) :: hook
    first = c_null_ptr
    passed = c_null_ptr
    hook = c_null_funptr
    if (present(owners)) then
      if (size(owners) /= rows) then
        call tell(int(PCM_ERROR_ARGUMENT, c_int), status, 'there is not one owner for each row')
        return
      end if
      in_c = int(owners, c_int)
      if (rows > 0) first = c_loc(in_c)
    end if
    if (present(divide)) hook = c_funloc(divide)
    if (present(context)) passed = context
    call tell(c_owner_list(in_c_text(name), int(rows, c_size_t), first, hook, passed), status)
  end subroutine

  ! The rows, counted from 1, that a list of owners gives to this rank, rising.
  subroutine pcm_row_numbers(name, rows, status)
    character(*), intent(in) :: name
    integer, allocatable, intent(out) :: rows(:)
    integer, optional, intent(out) :: status
    integer(c_size_t), pointer :: found(:)
    integer(c_size_t) :: count
    type(c_ptr) :: address
    count = 0
    address = c_row_numbers(in_c_text(name), count)
    allocate(rows(count))
    call tell_of(address, status)
    if (.not. c_associated(address)) return
    call c_f_pointer(address, found, [count])
    rows = int(found) + 1
  end subroutine

  ! The rank that a list of owners gives a row, counted from 1, to.
  subroutine pcm_row_owner(name, row, rank, status)
    character(*), intent(in) :: name
    integer, intent(in) :: row
    integer, intent(out) :: rank
    integer, optional, intent(out) :: status
    integer(c_int) :: owner
    owner = -1
    call tell(c_owner(in_c_text(name), [int(row - 1, c_size_t)], owner), status)
    rank = owner
  end subroutine

  ! Registers rows of different lengths, with entries of these sizes, in bytes, one for each column. Row i belongs to the
  ! rank that owns index i of the last dimension of the array `like`, whose other dimensions are not divided, or to the
  ! one that the list of owners `like` says.
  subroutine pcm_rows(name, like, entry_sizes, status)
    character(*), intent(in) :: name, like
    integer, intent(in) :: entry_sizes(:)
    integer, optional, intent(out) :: status
    call tell(c_rows(in_c_text(name), in_c_text(like), size(entry_sizes), int(entry_sizes, c_size_t)), status)
  end subroutine

  ! Gives each row of this rank a length, in entries. All entries are zero then.
  subroutine pcm_rows_resize(name, lengths, status)
    character(*), intent(in) :: name
    integer, intent(in) :: lengths(:)
    integer, optional, intent(out) :: status
    call tell(c_rows_resize(in_c_text(name), int(lengths, c_size_t)), status)
  end subroutine

  ! Row i of the `rows` that this rank has, counted from 1, has the entries offsets(i) + 1 to offsets(i + 1). Valid until
  ! the ranks change or the rows are resized.
  subroutine pcm_row_offsets(name, rows, offsets, status)
    character(*), intent(in) :: name
    integer, intent(in) :: rows
    integer(c_size_t), pointer, intent(out) :: offsets(:)
    integer, optional, intent(out) :: status
    type(c_ptr) :: address
    nullify(offsets)
    address = c_row_offsets(in_c_text(name))
    call tell_of(address, status)
    if (c_associated(address)) call c_f_pointer(address, offsets, [rows + 1])
  end subroutine

  ! The address of the entries of a column, counted from 1; c_f_pointer makes a pointer of it.
  subroutine pcm_row_entries(name, column, address, status)
    character(*), intent(in) :: name
    integer, intent(in) :: column
    type(c_ptr), intent(out) :: address
    integer, optional, intent(out) :: status
    address = c_row_entries(in_c_text(name), int(column - 1, c_int))
    call tell_of(address, status)
  end subroutine

  ! Registers records of a size in bytes, such as particles. When the number of ranks changes, each goes to the rank,
  ! counted from 0, that `owner` returns.
  subroutine pcm_records(name, record_size, owner, context, status)
    character(*), intent(in) :: name
    integer, intent(in) :: record_size
    procedure(pcm_owner_hook) :: owner
    type(c_ptr), optional, intent(in) :: context
    integer, optional, intent(out) :: status
    type(c_ptr) :: passed
    passed = c_null_ptr
    if (present(context)) passed = context
    call tell(c_records(in_c_text(name), int(record_size, c_size_t), c_funloc(owner), passed), status)
  end subroutine

  ! Makes room for so many records on this rank. The first ones stay, new ones are zero.
  subroutine pcm_records_resize(name, count, address, status)
    character(*), intent(in) :: name
    integer, intent(in) :: count
    type(c_ptr), intent(out) :: address
    integer, optional, intent(out) :: status
    address = c_records_resize(in_c_text(name), int(count, c_size_t))
    call tell_of(address, status)
  end subroutine

  ! The address and the number of this rank's records; c_f_pointer makes a pointer of it.
  subroutine pcm_record_data(name, address, count, status)
    character(*), intent(in) :: name
    type(c_ptr), intent(out) :: address
    integer, intent(out) :: count
    integer, optional, intent(out) :: status
    integer(c_size_t) :: found
    found = 0
    address = c_record_data(in_c_text(name), found)
    count = int(found)
    call tell_of(address, status)
  end subroutine

  ! Hands to the caller whether there is an address.
  subroutine tell_of(address, status)
    type(c_ptr), intent(in) :: address
    integer, optional, intent(out) :: status
    call tell(int(merge(PCM_OK, PCM_ERROR_ARGUMENT, c_associated(address)), c_int), status)
  end subroutine

  ! Calls the hook on every rank after the ranks have changed.
  subroutine pcm_on_change(hook, status)
    procedure(pcm_hook) :: hook
    integer, optional, intent(out) :: status
    type(c_ptr) :: context
    if (kept(hook, context, status)) call tell(c_on_change(c_funloc(changed), context), status)
  end subroutine

  ! Calls the hook on a rank that leaves, before it ends; it must not communicate.
  subroutine pcm_on_exit(hook, status)
    procedure(pcm_hook) :: hook
    integer, optional, intent(out) :: status
    type(c_ptr) :: context
    if (kept(hook, context, status)) call tell(c_on_exit(c_funloc(leaving), context), status)
  end subroutine

  logical function kept(hook, context, status)
    procedure(pcm_hook) :: hook
    type(c_ptr), intent(out) :: context
    integer, optional, intent(out) :: status
    context = c_null_ptr
    kept = hook_count < HOOKS_MAX
    if (.not. kept) then
      call tell(int(PCM_ERROR_ARGUMENT, c_int), status, 'there are 64 hooks already')
      return
    end if
    hook_count = hook_count + 1
    hooks(hook_count)%call => hook
    numbers(hook_count) = hook_count
    context = c_loc(numbers(hook_count))
  end function

  integer(c_int) function changed(context) bind(c)
    type(c_ptr), value :: context
    integer, pointer :: number
    integer :: status
    call c_f_pointer(context, number)
    status = 0
    call hooks(number)%call(status)
    changed = int(status, c_int)
  end function

  subroutine leaving(context) bind(c)
    type(c_ptr), value :: context
    if (changed(context) /= 0) write(error_unit, '(a)') 'pcm: an exit hook failed'
  end subroutine

  ! ---- between the languages ----------------------------------------------------------------------------------------

  ! Hands a result to the caller; a failure for which there is no status ends the program.
  subroutine tell(result, status, own_text)
    integer(c_int), intent(in) :: result
    integer, optional, intent(out) :: status
    character(*), optional, intent(in) :: own_text
    if (present(status)) then
      status = int(result)
    else if (result > 0) then
      if (present(own_text)) then
        write(error_unit, '(2a)') 'pcm: ', own_text
      else
        write(error_unit, '(2a)') 'pcm: ', pcm_last_error()
      end if
      error stop 1
    end if
  end subroutine

  function in_c_text(text) result(in_c)
    character(*), intent(in) :: text
    character(:, kind=c_char), allocatable :: in_c
    in_c = trim(text) // c_null_char
  end function

  function from_c(address) result(text)
    type(c_ptr), intent(in) :: address
    character(:), allocatable :: text
    character(kind=c_char), pointer :: characters(:)
    integer :: i
    call c_f_pointer(address, characters, [c_strlen(address)])
    allocate(character(size(characters)) :: text)
    do i = 1, size(characters)
      text(i:i) = characters(i)
    end do
  end function

  ! 0 for an array that was not registered here.
  integer function dimensions_of(name)
    character(*), intent(in) :: name
    integer :: i
    dimensions_of = 0
    if (.not. allocated(forms)) return
    do i = 1, size(forms)
      if (forms(i)%name == trim(name)) dimensions_of = forms(i)%dimensions
    end do
  end function

  integer(c_int) function axis_of(name, dimension)
    character(*), intent(in) :: name
    integer, intent(in) :: dimension
    axis_of = int(dimensions_of(name) - dimension, c_int)
  end function

  ! The library reads as many numbers as the array has axes; what is missing becomes 2**64 - 1, which it refuses.
  function in_c_index(name, index) result(in_c)
    character(*), intent(in) :: name
    integer, intent(in) :: index(:)
    integer(c_size_t) :: in_c(DIMENSIONS_MAX)
    integer :: n
    in_c = -1_c_size_t
    n = dimensions_of(name)
    if (size(index) == n) in_c(1:n) = int(index(n:1:-1), c_size_t) - 1
  end function

  ! What follows is written from the pieces in pcm-lib/fortran; tests/fortran_module.rs says how.

  ! ---- the same for each type and rank ------------------------------------------------------------------------------

  subroutine value_int32(name, value, status)
    character(*), intent(in) :: name
    integer(int32), target, intent(inout) :: value(..)
    integer, optional, intent(out) :: status
    call pcm_value_bytes(name, c_loc(value), size(value) * storage_size(value) / 8, status)
  end subroutine

  subroutine array_int32_1(name, array, extents, options, status)
    character(*), intent(in) :: name
    integer(int32), pointer, intent(out) :: array(:)
    integer, intent(in) :: extents(1)
    type(pcm_option), intent(in) :: options(:)
    integer, optional, intent(out) :: status
    nullify(array)
    if (created(name, PCM_INT32, extents, options, status)) call data_int32_1(name, array, status)
  end subroutine

  subroutine data_int32_1(name, array, status)
    character(*), intent(in) :: name
    integer(int32), pointer, intent(out) :: array(:)
    integer, optional, intent(out) :: status
    integer(int32), pointer :: part(:)
    type(place) :: at
    nullify(array)
    if (.not. found(name, 1, PCM_INT32, at, status)) return
    call c_f_pointer(at%address, part, at%extents(1:1))
    array(at%first(1):) => part
  end subroutine

  subroutine array_int32_2(name, array, extents, options, status)
    character(*), intent(in) :: name
    integer(int32), pointer, intent(out) :: array(:, :)
    integer, intent(in) :: extents(2)
    type(pcm_option), intent(in) :: options(:)
    integer, optional, intent(out) :: status
    nullify(array)
    if (created(name, PCM_INT32, extents, options, status)) call data_int32_2(name, array, status)
  end subroutine

  subroutine data_int32_2(name, array, status)
    character(*), intent(in) :: name
    integer(int32), pointer, intent(out) :: array(:, :)
    integer, optional, intent(out) :: status
    integer(int32), pointer :: part(:, :)
    type(place) :: at
    nullify(array)
    if (.not. found(name, 2, PCM_INT32, at, status)) return
    call c_f_pointer(at%address, part, at%extents(1:2))
    array(at%first(1):, at%first(2):) => part
  end subroutine

  subroutine array_int32_3(name, array, extents, options, status)
    character(*), intent(in) :: name
    integer(int32), pointer, intent(out) :: array(:, :, :)
    integer, intent(in) :: extents(3)
    type(pcm_option), intent(in) :: options(:)
    integer, optional, intent(out) :: status
    nullify(array)
    if (created(name, PCM_INT32, extents, options, status)) call data_int32_3(name, array, status)
  end subroutine

  subroutine data_int32_3(name, array, status)
    character(*), intent(in) :: name
    integer(int32), pointer, intent(out) :: array(:, :, :)
    integer, optional, intent(out) :: status
    integer(int32), pointer :: part(:, :, :)
    type(place) :: at
    nullify(array)
    if (.not. found(name, 3, PCM_INT32, at, status)) return
    call c_f_pointer(at%address, part, at%extents(1:3))
    array(at%first(1):, at%first(2):, at%first(3):) => part
  end subroutine

  subroutine value_int64(name, value, status)
    character(*), intent(in) :: name
    integer(int64), target, intent(inout) :: value(..)
    integer, optional, intent(out) :: status
    call pcm_value_bytes(name, c_loc(value), size(value) * storage_size(value) / 8, status)
  end subroutine

  subroutine array_int64_1(name, array, extents, options, status)
    character(*), intent(in) :: name
    integer(int64), pointer, intent(out) :: array(:)
    integer, intent(in) :: extents(1)
    type(pcm_option), intent(in) :: options(:)
    integer, optional, intent(out) :: status
    nullify(array)
    if (created(name, PCM_INT64, extents, options, status)) call data_int64_1(name, array, status)
  end subroutine

  subroutine data_int64_1(name, array, status)
    character(*), intent(in) :: name
    integer(int64), pointer, intent(out) :: array(:)
    integer, optional, intent(out) :: status
    integer(int64), pointer :: part(:)
    type(place) :: at
    nullify(array)
    if (.not. found(name, 1, PCM_INT64, at, status)) return
    call c_f_pointer(at%address, part, at%extents(1:1))
    array(at%first(1):) => part
  end subroutine

  subroutine array_int64_2(name, array, extents, options, status)
    character(*), intent(in) :: name
    integer(int64), pointer, intent(out) :: array(:, :)
    integer, intent(in) :: extents(2)
    type(pcm_option), intent(in) :: options(:)
    integer, optional, intent(out) :: status
    nullify(array)
    if (created(name, PCM_INT64, extents, options, status)) call data_int64_2(name, array, status)
  end subroutine

  subroutine data_int64_2(name, array, status)
    character(*), intent(in) :: name
    integer(int64), pointer, intent(out) :: array(:, :)
    integer, optional, intent(out) :: status
    integer(int64), pointer :: part(:, :)
    type(place) :: at
    nullify(array)
    if (.not. found(name, 2, PCM_INT64, at, status)) return
    call c_f_pointer(at%address, part, at%extents(1:2))
    array(at%first(1):, at%first(2):) => part
  end subroutine

  subroutine array_int64_3(name, array, extents, options, status)
    character(*), intent(in) :: name
    integer(int64), pointer, intent(out) :: array(:, :, :)
    integer, intent(in) :: extents(3)
    type(pcm_option), intent(in) :: options(:)
    integer, optional, intent(out) :: status
    nullify(array)
    if (created(name, PCM_INT64, extents, options, status)) call data_int64_3(name, array, status)
  end subroutine

  subroutine data_int64_3(name, array, status)
    character(*), intent(in) :: name
    integer(int64), pointer, intent(out) :: array(:, :, :)
    integer, optional, intent(out) :: status
    integer(int64), pointer :: part(:, :, :)
    type(place) :: at
    nullify(array)
    if (.not. found(name, 3, PCM_INT64, at, status)) return
    call c_f_pointer(at%address, part, at%extents(1:3))
    array(at%first(1):, at%first(2):, at%first(3):) => part
  end subroutine

  subroutine value_real32(name, value, status)
    character(*), intent(in) :: name
    real(real32), target, intent(inout) :: value(..)
    integer, optional, intent(out) :: status
    call pcm_value_bytes(name, c_loc(value), size(value) * storage_size(value) / 8, status)
  end subroutine

  subroutine array_real32_1(name, array, extents, options, status)
    character(*), intent(in) :: name
    real(real32), pointer, intent(out) :: array(:)
    integer, intent(in) :: extents(1)
    type(pcm_option), intent(in) :: options(:)
    integer, optional, intent(out) :: status
    nullify(array)
    if (created(name, PCM_FLOAT, extents, options, status)) call data_real32_1(name, array, status)
  end subroutine

  subroutine data_real32_1(name, array, status)
    character(*), intent(in) :: name
    real(real32), pointer, intent(out) :: array(:)
    integer, optional, intent(out) :: status
    real(real32), pointer :: part(:)
    type(place) :: at
    nullify(array)
    if (.not. found(name, 1, PCM_FLOAT, at, status)) return
    call c_f_pointer(at%address, part, at%extents(1:1))
    array(at%first(1):) => part
  end subroutine

  subroutine array_real32_2(name, array, extents, options, status)
    character(*), intent(in) :: name
    real(real32), pointer, intent(out) :: array(:, :)
    integer, intent(in) :: extents(2)
    type(pcm_option), intent(in) :: options(:)
    integer, optional, intent(out) :: status
    nullify(array)
    if (created(name, PCM_FLOAT, extents, options, status)) call data_real32_2(name, array, status)
  end subroutine

  subroutine data_real32_2(name, array, status)
    character(*), intent(in) :: name
    real(real32), pointer, intent(out) :: array(:, :)
    integer, optional, intent(out) :: status
    real(real32), pointer :: part(:, :)
    type(place) :: at
    nullify(array)
    if (.not. found(name, 2, PCM_FLOAT, at, status)) return
    call c_f_pointer(at%address, part, at%extents(1:2))
    array(at%first(1):, at%first(2):) => part
  end subroutine

  subroutine array_real32_3(name, array, extents, options, status)
    character(*), intent(in) :: name
    real(real32), pointer, intent(out) :: array(:, :, :)
    integer, intent(in) :: extents(3)
    type(pcm_option), intent(in) :: options(:)
    integer, optional, intent(out) :: status
    nullify(array)
    if (created(name, PCM_FLOAT, extents, options, status)) call data_real32_3(name, array, status)
  end subroutine

  subroutine data_real32_3(name, array, status)
    character(*), intent(in) :: name
    real(real32), pointer, intent(out) :: array(:, :, :)
    integer, optional, intent(out) :: status
    real(real32), pointer :: part(:, :, :)
    type(place) :: at
    nullify(array)
    if (.not. found(name, 3, PCM_FLOAT, at, status)) return
    call c_f_pointer(at%address, part, at%extents(1:3))
    array(at%first(1):, at%first(2):, at%first(3):) => part
  end subroutine

  subroutine value_real64(name, value, status)
    character(*), intent(in) :: name
    real(real64), target, intent(inout) :: value(..)
    integer, optional, intent(out) :: status
    call pcm_value_bytes(name, c_loc(value), size(value) * storage_size(value) / 8, status)
  end subroutine

  subroutine array_real64_1(name, array, extents, options, status)
    character(*), intent(in) :: name
    real(real64), pointer, intent(out) :: array(:)
    integer, intent(in) :: extents(1)
    type(pcm_option), intent(in) :: options(:)
    integer, optional, intent(out) :: status
    nullify(array)
    if (created(name, PCM_DOUBLE, extents, options, status)) call data_real64_1(name, array, status)
  end subroutine

  subroutine data_real64_1(name, array, status)
    character(*), intent(in) :: name
    real(real64), pointer, intent(out) :: array(:)
    integer, optional, intent(out) :: status
    real(real64), pointer :: part(:)
    type(place) :: at
    nullify(array)
    if (.not. found(name, 1, PCM_DOUBLE, at, status)) return
    call c_f_pointer(at%address, part, at%extents(1:1))
    array(at%first(1):) => part
  end subroutine

  subroutine array_real64_2(name, array, extents, options, status)
    character(*), intent(in) :: name
    real(real64), pointer, intent(out) :: array(:, :)
    integer, intent(in) :: extents(2)
    type(pcm_option), intent(in) :: options(:)
    integer, optional, intent(out) :: status
    nullify(array)
    if (created(name, PCM_DOUBLE, extents, options, status)) call data_real64_2(name, array, status)
  end subroutine

  subroutine data_real64_2(name, array, status)
    character(*), intent(in) :: name
    real(real64), pointer, intent(out) :: array(:, :)
    integer, optional, intent(out) :: status
    real(real64), pointer :: part(:, :)
    type(place) :: at
    nullify(array)
    if (.not. found(name, 2, PCM_DOUBLE, at, status)) return
    call c_f_pointer(at%address, part, at%extents(1:2))
    array(at%first(1):, at%first(2):) => part
  end subroutine

  subroutine array_real64_3(name, array, extents, options, status)
    character(*), intent(in) :: name
    real(real64), pointer, intent(out) :: array(:, :, :)
    integer, intent(in) :: extents(3)
    type(pcm_option), intent(in) :: options(:)
    integer, optional, intent(out) :: status
    nullify(array)
    if (created(name, PCM_DOUBLE, extents, options, status)) call data_real64_3(name, array, status)
  end subroutine

  subroutine data_real64_3(name, array, status)
    character(*), intent(in) :: name
    real(real64), pointer, intent(out) :: array(:, :, :)
    integer, optional, intent(out) :: status
    real(real64), pointer :: part(:, :, :)
    type(place) :: at
    nullify(array)
    if (.not. found(name, 3, PCM_DOUBLE, at, status)) return
    call c_f_pointer(at%address, part, at%extents(1:3))
    array(at%first(1):, at%first(2):, at%first(3):) => part
  end subroutine

  subroutine value_complex32(name, value, status)
    character(*), intent(in) :: name
    complex(real32), target, intent(inout) :: value(..)
    integer, optional, intent(out) :: status
    call pcm_value_bytes(name, c_loc(value), size(value) * storage_size(value) / 8, status)
  end subroutine

  subroutine array_complex32_1(name, array, extents, options, status)
    character(*), intent(in) :: name
    complex(real32), pointer, intent(out) :: array(:)
    integer, intent(in) :: extents(1)
    type(pcm_option), intent(in) :: options(:)
    integer, optional, intent(out) :: status
    nullify(array)
    if (created(name, PCM_COMPLEX_FLOAT, extents, options, status)) call data_complex32_1(name, array, status)
  end subroutine

  subroutine data_complex32_1(name, array, status)
    character(*), intent(in) :: name
    complex(real32), pointer, intent(out) :: array(:)
    integer, optional, intent(out) :: status
    complex(real32), pointer :: part(:)
    type(place) :: at
    nullify(array)
    if (.not. found(name, 1, PCM_COMPLEX_FLOAT, at, status)) return
    call c_f_pointer(at%address, part, at%extents(1:1))
    array(at%first(1):) => part
  end subroutine

  subroutine array_complex32_2(name, array, extents, options, status)
    character(*), intent(in) :: name
    complex(real32), pointer, intent(out) :: array(:, :)
    integer, intent(in) :: extents(2)
    type(pcm_option), intent(in) :: options(:)
    integer, optional, intent(out) :: status
    nullify(array)
    if (created(name, PCM_COMPLEX_FLOAT, extents, options, status)) call data_complex32_2(name, array, status)
  end subroutine

  subroutine data_complex32_2(name, array, status)
    character(*), intent(in) :: name
    complex(real32), pointer, intent(out) :: array(:, :)
    integer, optional, intent(out) :: status
    complex(real32), pointer :: part(:, :)
    type(place) :: at
    nullify(array)
    if (.not. found(name, 2, PCM_COMPLEX_FLOAT, at, status)) return
    call c_f_pointer(at%address, part, at%extents(1:2))
    array(at%first(1):, at%first(2):) => part
  end subroutine

  subroutine array_complex32_3(name, array, extents, options, status)
    character(*), intent(in) :: name
    complex(real32), pointer, intent(out) :: array(:, :, :)
    integer, intent(in) :: extents(3)
    type(pcm_option), intent(in) :: options(:)
    integer, optional, intent(out) :: status
    nullify(array)
    if (created(name, PCM_COMPLEX_FLOAT, extents, options, status)) call data_complex32_3(name, array, status)
  end subroutine

  subroutine data_complex32_3(name, array, status)
    character(*), intent(in) :: name
    complex(real32), pointer, intent(out) :: array(:, :, :)
    integer, optional, intent(out) :: status
    complex(real32), pointer :: part(:, :, :)
    type(place) :: at
    nullify(array)
    if (.not. found(name, 3, PCM_COMPLEX_FLOAT, at, status)) return
    call c_f_pointer(at%address, part, at%extents(1:3))
    array(at%first(1):, at%first(2):, at%first(3):) => part
  end subroutine

  subroutine value_complex64(name, value, status)
    character(*), intent(in) :: name
    complex(real64), target, intent(inout) :: value(..)
    integer, optional, intent(out) :: status
    call pcm_value_bytes(name, c_loc(value), size(value) * storage_size(value) / 8, status)
  end subroutine

  subroutine array_complex64_1(name, array, extents, options, status)
    character(*), intent(in) :: name
    complex(real64), pointer, intent(out) :: array(:)
    integer, intent(in) :: extents(1)
    type(pcm_option), intent(in) :: options(:)
    integer, optional, intent(out) :: status
    nullify(array)
    if (created(name, PCM_COMPLEX_DOUBLE, extents, options, status)) call data_complex64_1(name, array, status)
  end subroutine

  subroutine data_complex64_1(name, array, status)
    character(*), intent(in) :: name
    complex(real64), pointer, intent(out) :: array(:)
    integer, optional, intent(out) :: status
    complex(real64), pointer :: part(:)
    type(place) :: at
    nullify(array)
    if (.not. found(name, 1, PCM_COMPLEX_DOUBLE, at, status)) return
    call c_f_pointer(at%address, part, at%extents(1:1))
    array(at%first(1):) => part
  end subroutine

  subroutine array_complex64_2(name, array, extents, options, status)
    character(*), intent(in) :: name
    complex(real64), pointer, intent(out) :: array(:, :)
    integer, intent(in) :: extents(2)
    type(pcm_option), intent(in) :: options(:)
    integer, optional, intent(out) :: status
    nullify(array)
    if (created(name, PCM_COMPLEX_DOUBLE, extents, options, status)) call data_complex64_2(name, array, status)
  end subroutine

  subroutine data_complex64_2(name, array, status)
    character(*), intent(in) :: name
    complex(real64), pointer, intent(out) :: array(:, :)
    integer, optional, intent(out) :: status
    complex(real64), pointer :: part(:, :)
    type(place) :: at
    nullify(array)
    if (.not. found(name, 2, PCM_COMPLEX_DOUBLE, at, status)) return
    call c_f_pointer(at%address, part, at%extents(1:2))
    array(at%first(1):, at%first(2):) => part
  end subroutine

  subroutine array_complex64_3(name, array, extents, options, status)
    character(*), intent(in) :: name
    complex(real64), pointer, intent(out) :: array(:, :, :)
    integer, intent(in) :: extents(3)
    type(pcm_option), intent(in) :: options(:)
    integer, optional, intent(out) :: status
    nullify(array)
    if (created(name, PCM_COMPLEX_DOUBLE, extents, options, status)) call data_complex64_3(name, array, status)
  end subroutine

  subroutine data_complex64_3(name, array, status)
    character(*), intent(in) :: name
    complex(real64), pointer, intent(out) :: array(:, :, :)
    integer, optional, intent(out) :: status
    complex(real64), pointer :: part(:, :, :)
    type(place) :: at
    nullify(array)
    if (.not. found(name, 3, PCM_COMPLEX_DOUBLE, at, status)) return
    call c_f_pointer(at%address, part, at%extents(1:3))
    array(at%first(1):, at%first(2):, at%first(3):) => part
  end subroutine
end module
