! heat2d in Fortran: how heat spreads over a plate whose border is held at fixed temperatures. The same method and the
! same bits as heat2d.c. A row of the plate is t(:, i), so the ranks own blocks of the second dimension.
program heat2d
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int64, real64, error_unit
  use mpi
  implicit none

  integer, parameter :: FROM_ABOVE = 1, FROM_BELOW = 2
  integer :: rows, cols, iterations, sleep_us
  integer :: rank, size, first, last, above, below, ierror
  integer, target, save :: iteration = 0
  integer(int64) :: total
  real(real64), pointer :: t(:, :)
  double precision :: start, seconds

  interface
    integer(c_int) function usleep(microseconds) bind(c)
      import :: c_int
      integer(c_int), value :: microseconds
    end function
  end interface

  call MPI_Init(ierror)
  call read_options()
  call my_rows()
  allocate(t(cols, first - 1:last + 1))
  call set_initial()

  start = MPI_Wtime()
  do while (iteration < iterations)
    call exchange_halo()
    call relax()
    if (sleep_us > 0) ierror = usleep(int(sleep_us, c_int))
    iteration = iteration + 1
  end do
  seconds = MPI_Wtime() - start

  total = checksum()
  call MPI_Comm_size(MPI_COMM_WORLD, size, ierror)
  if (rank == 0) call print_closing()
  call MPI_Finalize(ierror)

contains

  subroutine read_options()
    rows = number_after('--rows', -1)
    cols = number_after('--cols', -1)
    iterations = number_after('--iterations', -1)
    sleep_us = number_after('--sleep-us', 0)
    if (rows < 3 .or. cols < 3 .or. iterations < 0 .or. sleep_us < 0) then
      write(error_unit, '(a)') 'usage: heat2d --rows R --cols C --iterations K [--sleep-us U]'
      call MPI_Abort(MPI_COMM_WORLD, 2, ierror)
    end if
  end subroutine

  integer function number_after(name, otherwise)
    character(*), intent(in) :: name
    integer, intent(in) :: otherwise
    character(32) :: word
    integer :: i, status
    number_after = otherwise
    do i = 1, command_argument_count() - 1
      call get_command_argument(i, word)
      if (word /= name) cycle
      call get_command_argument(i + 1, word)
      read(word, *, iostat=status) number_after
      if (status /= 0) number_after = -1
    end do
  end function

  ! The rows this rank owns, from first to last, and the ranks that own the rows beside; the first
  ! mod(rows, size) ranks get one row more.
  subroutine my_rows()
    integer :: share, rest
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
    call MPI_Comm_size(MPI_COMM_WORLD, size, ierror)
    share = rows / size
    rest = mod(rows, size)
    first = rank * share + min(rank, rest) + 1
    last = first + share - 1
    if (rank < rest) last = last + 1
    above = MPI_PROC_NULL
    below = MPI_PROC_NULL
    if (first <= last .and. first > 1) above = rank - 1
    if (first <= last .and. last < rows) below = rank + 1
  end subroutine

  ! Hot along the top, cooling off along the sides, cold elsewhere.
  subroutine set_initial()
    integer :: i
    real(real64) :: side
    do i = first, last
      side = 100.0_real64 * real(rows - i, real64) / real(rows - 1, real64)
      t(:, i) = 0
      t(1, i) = side
      t(cols, i) = side
      if (i == 1) t(:, i) = 100
    end do
  end subroutine

  subroutine exchange_halo()
    call MPI_Sendrecv(t(1, first), cols, MPI_DOUBLE_PRECISION, above, FROM_BELOW, t(1, last + 1), cols, &
                      MPI_DOUBLE_PRECISION, below, FROM_BELOW, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
    call MPI_Sendrecv(t(1, last), cols, MPI_DOUBLE_PRECISION, below, FROM_ABOVE, t(1, first - 1), cols, &
                      MPI_DOUBLE_PRECISION, above, FROM_ABOVE, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
  end subroutine

  ! One step of Jacobi's method in place; two rows keep the values that it overwrites too early.
  subroutine relax()
    real(real64) :: row_above(cols), here(cols)
    integer :: i, j
    row_above = t(:, first - 1)
    do i = first, last
      here = t(:, i)
      if (i > 1 .and. i < rows) then
        do j = 2, cols - 1
          t(j, i) = 0.25_real64 * ((row_above(j) + t(j, i + 1)) + (here(j - 1) + here(j + 1)))
        end do
      end if
      row_above = here
    end do
  end subroutine

  ! A bijection that spreads every bit over all others (splitmix64); products wrap around.
  pure integer(int64) function mix(number)
    integer(int64), intent(in) :: number
    mix = ieor(number, shiftr(number, 30)) * (-4658895280553007687_int64)
    mix = ieor(mix, shiftr(mix, 27)) * (-7723592293110705685_int64)
    mix = ieor(mix, shiftr(mix, 31))
  end function

  ! Each cell's bits are hashed with its place and added: a sum of integers does not depend on who owns what.
  integer(int64) function checksum()
    integer(int64) :: mine, place
    integer :: i, j
    mine = 0
    do i = first, last
      do j = 1, cols
        place = int(i - 1, int64) * cols + (j - 1)
        mine = mine + mix(ieor(transfer(t(j, i), 0_int64), mix(place - 7046029254386353131_int64)))
      end do
    end do
    checksum = 0
    call MPI_Reduce(mine, checksum, 1, MPI_INTEGER8, MPI_SUM, 0, MPI_COMM_WORLD, ierror)
  end function

  subroutine print_closing()
    character(16) :: digits
    integer :: i
    write(digits, '(z16.16)') total
    do i = 1, 16
      if (digits(i:i) >= 'A') digits(i:i) = achar(iachar(digits(i:i)) + 32)
    end do
    print '(a, i0, a, i0, a, f0.6, 2a)', 'heat2d: iterations ', iteration, ' ranks ', size, ' seconds ', seconds, &
        ' checksum ', digits
  end subroutine
end program
