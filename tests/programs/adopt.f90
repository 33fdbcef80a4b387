! Arrays in allocatables of the program. Each iteration adds to each cell what its global indices say, and checks all;
! two lists change places.
!
! Usage: adopt ITERATIONS SLEEP_US
module adopt_data
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int64, real64, error_unit
  use mpi
  use pcm
  implicit none

  integer, parameter :: COLS = 23, ROWS = 30, LENGTH = 17
  real(real64), allocatable, target, save :: t(:, :)
  integer(int64), allocatable, target, save :: now(:), next(:)

contains

  subroutine hold_t(part)
    type(pcm_memory), intent(inout) :: part
    call move_alloc(part%real64_2, t)
  end subroutine

  subroutine hold_now(part)
    type(pcm_memory), intent(inout) :: part
    call move_alloc(part%int64_1, now)
  end subroutine

  subroutine hold_next(part)
    type(pcm_memory), intent(inout) :: part
    call move_alloc(part%int64_1, next)
  end subroutine

  ! The library lets the memory of two arrays change places, and the program its allocatables.
  subroutine swap()
    integer(int64), allocatable :: kept(:)
    call pcm_swap('now', 'next')
    call move_alloc(now, kept)
    call move_alloc(next, now)
    call move_alloc(kept, next)
  end subroutine

  subroutine expect(is_so, what)
    logical, intent(in) :: is_so
    character(*), intent(in) :: what
    integer :: ierror
    if (is_so) return
    write(error_unit, '(2a)') 'adopt: not so: ', what
    call MPI_Abort(MPI_COMM_WORLD, 1, ierror)
  end subroutine
end module

program adopt
  use adopt_data
  implicit none
  integer, target, save :: iteration = 0
  integer :: iterations, pause, rank, ranks, status, ierror, left, right, low, high, first, last
  integer(int64) :: mine(2), total(2)
  real(real64), pointer :: view(:, :)

  interface
    integer(c_int) function usleep(microseconds) bind(c)
      import :: c_int
      integer(c_int), value :: microseconds
    end function
  end interface

  call MPI_Init(ierror)
  iterations = argument(1)
  pause = argument(2)
  call pcm_adopt('t', PCM_DOUBLE, hold_t, [COLS, ROWS], [pcm_block(1), pcm_block(2), pcm_halo(2, 1)])
  call pcm_adopt('now', PCM_INT64, hold_now, [LENGTH], [pcm_block(1)])
  call pcm_adopt('next', PCM_INT64, hold_next, [LENGTH], [pcm_block(1), pcm_scratch()])
  call pcm_adopt('t', PCM_DOUBLE, hold_t, [COLS], [pcm_block(1)], status)
  call expect(status == PCM_ERROR_TWICE, 'a second array of the same name is refused')
  call pcm_adopt('u', PCM_DOUBLE, hold_t, [COLS], [pcm_block(2)], status)
  call expect(status == PCM_ERROR_ARGUMENT, 'an option for a dimension that is not there is refused')
  call pcm_value('iteration', iteration)
  call pcm_start()
  call look_around()
  do while (iteration < iterations)
    if (pcm_iterate()) call look_around()
    call check()
    call step()
    if (pause > 0) status = usleep(int(pause, c_int))
    iteration = iteration + 1
  end do
  mine = [int(sum(t(left:right, low:high)), int64), sum(now)]
  total = 0
  call MPI_Reduce(mine, total, 2, MPI_INTEGER8, MPI_SUM, 0, MPI_COMM_WORLD, ierror)
  if (rank == 0) print '(4(a, i0), a, i0)', 'adopt: iterations ', iterations, ' ranks ', ranks, &
    ' checksum ', total(1), '+', total(2)
  call MPI_Finalize(ierror)

contains

  integer function argument(number)
    integer, intent(in) :: number
    character(32) :: word
    call get_command_argument(number, word)
    read(word, *) argument
  end function

  subroutine look_around()
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierror)
    call pcm_bounds('t', 1, left, right)
    call pcm_bounds('t', 2, low, high)
    call pcm_bounds('now', 1, first, last)
  end subroutine

  ! The allocatables are what the library has, with global indices and the halo.
  subroutine check()
    integer :: i, j
    call pcm_data('t', view)
    call expect(all(lbound(t) == lbound(view)) .and. all(ubound(t) == ubound(view)), 'bounds of the allocatable')
    call expect(size(now) == last - first + 1 .and. size(next) == size(now), 'the size of a list')
    if (size(t) == 0 .or. high < low) return
    call expect(lbound(t, 1) == left .and. lbound(t, 2) == low - 1 .and. ubound(t, 2) == high + 1, 'the halo')
    call expect(associated(view, t), 'one memory')
    if (size(now) > 0) call expect(lbound(now, 1) == first, 'bounds of a list')
    do i = low, high
      do j = left, right
        call expect(nint(t(j, i)) == iteration * (1000 * j + i), 'a cell')
      end do
    end do
  end subroutine

  subroutine step()
    integer :: i, j
    do i = low, high
      do j = left, right
        t(j, i) = t(j, i) + (1000 * j + i)
      end do
    end do
    do i = first, last
      next(i) = now(i) + i * iteration
    end do
    call swap()
  end subroutine
end program
