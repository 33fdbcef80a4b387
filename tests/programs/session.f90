! What the module pcm has beside heat2d, in a sum that does not depend on the ranks: rank 0 adds to a value of each rank
! and to a list of its own in each iteration; both are shared out and collected when the ranks change.
!
! Usage: session ITERATIONS SLEEP_US
module session_data
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int32, int64, real32, real64, error_unit
  use mpi
  use pcm
  implicit none

  integer, parameter :: ROWS = 12, COLS = 9
  integer :: rank, ierror, hooks_run = 0
  complex(real64), pointer :: grid(:, :)
  integer(int64), target, save :: tokens = 0
  integer(int64), allocatable, target, save :: list(:)

  ! A record, which belongs to rank number % ranks.
  type, bind(c) :: mark
    integer(c_int64_t) :: number, value
  end type
  integer, parameter :: MARKS = 20, CELLS = 17

contains

  subroutine expect(is_so, what)
    logical, intent(in) :: is_so
    character(*), intent(in) :: what
    if (is_so) return
    write(error_unit, '(2a)') 'session: not so: ', what
    call MPI_Abort(MPI_COMM_WORLD, 1, ierror)
  end subroutine

  ! The pointer has the global indices, in Fortran's order; what the library says of an index is where it is.
  subroutine check_grid()
    integer :: i, j, last_i, last_j, owner, count, low(2), high(2), extents(2)
    integer(int64) :: position
    call pcm_bounds('grid', 1, j, last_j)
    call pcm_bounds('grid', 2, i, last_i)
    call expect(lbound(grid, 1) == j .and. ubound(grid, 1) == last_j, 'bounds of the dimension without a halo')
    call expect(lbound(grid, 2) == i - 2 .and. ubound(grid, 2) == last_i + 2, 'bounds of the dimension with a halo')
    call pcm_local_extents('grid', extents)
    call expect(all(extents == shape(grid)), 'local extents')
    if (last_i < i .or. last_j < j) return
    call pcm_owner('grid', [j, i], owner)
    call expect(owner == rank, 'a rank owns the first of its own')
    call pcm_local_offset('grid', [j, i], position)
    call expect(position == 2 * size(grid, 1) + 1, 'two rows of halo come first')
    call pcm_box_count('grid', count)
    call pcm_box('grid', 1, low, high)
    call expect(count == 1 .and. all(low == [j, i]) .and. all(high == [last_j, last_i]), 'one box')
  end subroutine

  logical function is_few(ranks)
    integer, intent(in) :: ranks
    is_few = ranks < 61
  end function

  logical function is_none(ranks)
    integer, intent(in) :: ranks
    is_none = ranks < 1
  end function

  subroutine look_again(status)
    integer, intent(inout) :: status
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, status)
    call pcm_data('grid', grid)
    call check_grid()
    hooks_run = hooks_run + 1
  end subroutine

  subroutine say_goodbye(status)
    integer, intent(inout) :: status
    flush(error_unit)
    status = 0
  end subroutine

  integer(c_int) function merge_tokens(context, mine, other) bind(c)
    type(c_ptr), value :: context, mine, other
    integer(int64), pointer :: own, leaving
    call c_f_pointer(mine, own)
    call c_f_pointer(other, leaving)
    own = own + leaving
    merge_tokens = 0
    if (c_associated(context)) merge_tokens = 1
  end function

  integer(c_int) function split_tokens(context, mine, share, left) bind(c)
    type(c_ptr), value :: context, mine, share
    integer(c_int), value :: left
    integer(int64), pointer :: own, given
    call c_f_pointer(mine, own)
    call c_f_pointer(share, given)
    given = own / (left + 1)
    own = own - given
    split_tokens = 0
    if (c_associated(context)) split_tokens = 1
  end function

  integer(c_int) function pack_list(context, to, ranks, packer) bind(c)
    type(c_ptr), value :: context, packer
    integer(c_int), value :: to, ranks
    pack_list = 0
    if (c_associated(context) .or. to >= ranks) pack_list = 1
    if (size(list) > 0) pack_list = pcm_pack(packer, c_loc(list), 8 * size(list))
  end function

  integer(c_int) function unpack_list(context, parts, count) bind(c)
    type(c_ptr), value :: context, parts
    integer(c_size_t), value :: count
    type(pcm_part), pointer :: all(:)
    integer(int64), pointer :: numbers(:)
    integer :: i
    unpack_list = 0
    if (c_associated(context)) unpack_list = 1
    list = [integer(int64) ::]
    if (count == 0) return
    call c_f_pointer(parts, all, [count])
    do i = 1, int(count)
      if (all(i)%size == 0) cycle
      call c_f_pointer(all(i)%data, numbers, [all(i)%size / 8])
      list = [list, numbers]
    end do
  end function

  integer(c_int) function owner_of_mark(context, record, ranks) bind(c)
    type(c_ptr), value :: context, record
    integer(c_int), value :: ranks
    type(mark), pointer :: one
    call c_f_pointer(record, one)
    owner_of_mark = int(mod(one%number, int(ranks, int64)), c_int)
    if (c_associated(context)) owner_of_mark = -1
  end function

  ! Row i has mod(i, 3) entries, each i.
  subroutine fill_pieces(ranks)
    integer, intent(in) :: ranks
    integer :: first, last, row, number
    type(c_ptr) :: address
    integer(c_size_t), pointer :: offsets(:)
    integer(int32), pointer :: entries(:)
    type(mark), pointer :: all(:)
    call pcm_bounds('held', 1, first, last)
    call pcm_rows_resize('lines', [(mod(row, 3), row = first, last)])
    call pcm_row_offsets('lines', last - first + 1, offsets)
    call pcm_row_entries('lines', 1, address)
    call c_f_pointer(address, entries, [offsets(last - first + 2)])
    do row = first, last
      entries(offsets(row - first + 1) + 1 : offsets(row - first + 2)) = row
    end do
    do number = rank, MARKS - 1, ranks
      call pcm_records_resize('marks', number / ranks + 1, address)
      call c_f_pointer(address, all, [number / ranks + 1])
      all(size(all)) = mark(number, number)
    end do
  end subroutine

  ! Each iteration adds one to all.
  subroutine check_pieces(iteration)
    integer, intent(in) :: iteration
    integer :: first, last, row, count, ranks
    integer(int64) :: own(1), total(1)
    type(c_ptr) :: address
    integer(c_size_t), pointer :: offsets(:)
    integer(int32), pointer :: entries(:)
    type(mark), pointer :: all_marks(:)
    call pcm_bounds('held', 1, first, last)
    call pcm_row_offsets('lines', last - first + 1, offsets)
    call pcm_row_entries('lines', 1, address)
    call c_f_pointer(address, entries, [offsets(last - first + 2)])
    do row = first, last
      call expect(offsets(row - first + 2) - offsets(row - first + 1) == mod(row, 3), 'a row has its length')
      call expect(all(entries(offsets(row - first + 1) + 1 : offsets(row - first + 2)) == row + iteration), &
        'a row has its entries')
    end do
    entries = entries + 1
    call pcm_record_data('marks', address, count)
    call c_f_pointer(address, all_marks, [count])
    call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierror)
    own = count
    total = 0
    call MPI_Reduce(own, total, 1, MPI_INTEGER8, MPI_SUM, 0, MPI_COMM_WORLD, ierror)
    call expect(rank /= 0 .or. total(1) == MARKS, 'no record is lost')
    call expect(all(mod(all_marks%number, int(ranks, int64)) == rank), 'a record is with its owner')
    call expect(all(all_marks%value == all_marks%number + iteration), 'a record has its value')
    all_marks%value = all_marks%value + 1
  end subroutine

  ! Cell i, from 0, belongs to rank i * i % ranks, and has one entry, to which each iteration adds one.
  integer(c_int) function divide(context, ranks, owners, rows) bind(c)
    type(c_ptr), value :: context
    integer(c_int), value :: ranks
    integer(c_size_t), value :: rows
    integer(c_int), intent(inout) :: owners(rows)
    integer :: i
    owners = [(mod(i * i, ranks), i = 0, int(rows) - 1)]
    divide = 0
    if (c_associated(context)) divide = 1
  end function

  subroutine check_cells(iteration)
    integer, intent(in) :: iteration
    integer :: cell, owner, ranks
    integer, allocatable :: numbers(:), wanted(:)
    integer(int32), pointer :: entries(:)
    type(c_ptr) :: address
    call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierror)
    call pcm_row_numbers('owners', numbers)
    wanted = [(cell, cell = 1, CELLS)]
    wanted = pack(wanted, mod((wanted - 1)**2, ranks) == rank)
    call expect(size(numbers) == size(wanted) .and. all(numbers == wanted), 'a rank has the cells that it owns')
    call pcm_row_owner('owners', 5, owner)
    call expect(owner == mod(16, ranks), 'a cell has its owner')
    if (iteration < 0) call pcm_rows_resize('cells', [(1, cell = 1, size(numbers))])
    call pcm_row_entries('cells', 1, address)
    call c_f_pointer(address, entries, [size(numbers)])
    if (iteration < 0) entries = numbers
    call expect(all(entries == numbers + max(iteration, 0)), 'a cell has its entry')
    if (iteration >= 0) entries = entries + 1
  end subroutine

  integer(c_int) function new_rank(context, from, ranks_before, ranks_after, targets) bind(c)
    type(c_ptr), value :: context
    integer(c_int), value :: from, ranks_before, ranks_after
    integer(c_int), intent(out) :: targets(*)
    targets(1) = from * ranks_after / ranks_before
    new_rank = 1
    if (c_associated(context)) new_rank = -1
  end function
end module

program session
  use session_data
  implicit none
  integer(int32), pointer :: one(:), other(:)
  real(real32), pointer :: fixed(:, :, :)
  real(real64), pointer :: held(:)
  integer, target, save :: iteration = 0, length = 0
  real(real64), target, save :: pair(2) = [1, 2]
  integer :: iterations, pause, ranks, status, before
  integer(int64) :: mine(2), total(2)
  logical :: is_changed

  interface
    integer(c_int) function usleep(microseconds) bind(c)
      import :: c_int
      integer(c_int), value :: microseconds
    end function
  end interface

  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierror)
  iterations = argument(1)
  pause = argument(2)
  list = [integer(int64) ::]
  call pcm_array('grid', grid, [ROWS, COLS], [pcm_block(1), pcm_block(2), pcm_halo(2, 2)])
  call pcm_array('one', one, [40], [pcm_cyclic(1, 3), pcm_scratch()])
  call pcm_array('other', other, [40], [pcm_cyclic(1, 3)])
  if (.not. pcm_joining()) length = 30 ! as if it were read from a file
  call pcm_value('length', length)
  call pcm_array('fixed', fixed, [2, 3, length], [pcm_weighted(3, weights(ranks)), pcm_constant()])
  call expect(all(shape(fixed) == [2, 3, size(fixed, 3)]), 'three dimensions in the order of Fortran')
  call pcm_value('iteration', iteration)
  call pcm_value('pair', pair)
  call pcm_value_per_rank('tokens', c_loc(tokens), 8, merge_tokens, split_tokens)
  call pcm_custom('list', pack_list, unpack_list, new_rank)
  if (pcm_joining()) then
    call pcm_array('held', held, [50], [pcm_block(1)])
  else
    call pcm_array('held', held, [50], [pcm_costs(1, [(real(length, real64), length = 1, 50)])])
  end if
  call pcm_set_costs('held', 1, [(real(mod(before, 7), real64), before = 1, 50)])
  call pcm_owner_list('owners', 2, [0], status=status)
  call expect(status == PCM_ERROR_ARGUMENT, 'each row has an owner')
  call pcm_owner_list('owners', CELLS, [(mod(before * before, ranks), before = 0, CELLS - 1)], divide)
  call pcm_rows('cells', 'owners', [4])
  if (.not. pcm_joining()) call check_cells(-1)
  call pcm_rows('lines', 'held', [4])
  call pcm_records('marks', 16, owner_of_mark)
  if (.not. pcm_joining()) call fill_pieces(ranks)
  call pcm_rows('none', 'nothing', [4], status)
  call expect(status == PCM_ERROR_UNKNOWN, 'rows of an array that is not there are refused')
  call pcm_on_change(look_again)
  call pcm_on_exit(say_goodbye)
  call pcm_possible_ranks(is_few)
  call pcm_possible_ranks(is_none, status)
  call expect(status == PCM_ERROR_ARGUMENT, 'a program runs on some number of ranks')
  call pcm_array('grid', one, [4], [pcm_block(1)], status)
  call expect(len(pcm_last_error()) > 0, 'an error has a text')
  call expect(status > 0, 'a second array of the same name is refused')
  call pcm_start()
  call pcm_start(status)
  call expect(status == PCM_ERROR_STARTED, 'a second start is refused')
  call pcm_data('grid', one, status)
  call expect(status == PCM_ERROR_KIND, 'a pointer of another type is refused')
  call pcm_data('one', one)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  if (.not. pcm_joining()) call check_grid()
  do while (iteration < iterations)
    before = hooks_run
    is_changed = pcm_iterate()
    call expect(is_changed .eqv. hooks_run > before, 'the hook runs in each change')
    call check_grid()
    call pcm_remaining(iterations - iteration)
    call check_pieces(iteration)
    call check_cells(iteration)
    call pcm_swap('one', 'other')
    call pcm_data('one', one)
    call pcm_data('other', other)
    if (rank == 0) then
      tokens = tokens + iteration
      list = [list, int(iteration, int64)]
    end if
    if (pause > 0) status = usleep(int(pause, c_int))
    iteration = iteration + 1
  end do
  call expect(all(nint(pair) == [1, 2]), 'the pair is what it was')
  mine = [tokens, sum(list)]
  total = 0
  call MPI_Reduce(mine, total, 2, MPI_INTEGER8, MPI_SUM, 0, MPI_COMM_WORLD, ierror)
  call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierror)
  if (rank == 0) print '(4(a, i0), a, i0)', 'session: iterations ', iterations, ' ranks ', ranks, &
    ' checksum ', total(1), '+', total(2)
  call MPI_Finalize(ierror)

contains

  integer function argument(number)
    integer, intent(in) :: number
    character(32) :: word
    call get_command_argument(number, word)
    read(word, *) argument
  end function

  function weights(count)
    integer, intent(in) :: count
    real(real64) :: weights(count)
    weights = 1.5_real64
  end function
end program
