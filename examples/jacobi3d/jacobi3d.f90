! jacobi3d: the temperature in a block whose six sides are held, by Jacobi's method with two arrays that take turns.
! The ranks form a grid over the second and the third dimension; each owns t(:, y1:y2, z1:z2).
!
! Usage: jacobi3d NX NY NZ ITERATIONS SLEEP_US
!
! NY and NZ must not be less than the number of ranks: a prime number of ranks is a grid of one row.
program jacobi3d
  use, intrinsic :: iso_c_binding
  use, intrinsic :: iso_fortran_env, only: int64, real64, error_unit
  use mpi
  use pcm
  implicit none

  integer, parameter :: DOWN = 1, UP = 2
  integer :: nx, ny, nz, iterations, sleep_us
  integer :: rank, ranks, ierror
  integer :: y1, y2, z1, z2                          ! this rank's part
  integer :: lower_y, upper_y, lower_z, upper_z      ! the ranks beside it
  integer, target, save :: iteration = 0
  integer(int64) :: total
  real(real64), pointer :: t(:, :, :), next(:, :, :)
  type(pcm_option) :: parts(4)

  interface
    integer(c_int) function usleep(microseconds) bind(c)
      import :: c_int
      integer(c_int), value :: microseconds
    end function
  end interface

  call MPI_Init(ierror)
  call read_arguments()
  parts = [pcm_block(2), pcm_block(3), pcm_halo(2, 1), pcm_halo(3, 1)]
  call pcm_array('t', t, [nx, ny, nz], parts)
  call pcm_array('next', next, [nx, ny, nz], [parts, pcm_scratch()])
  call pcm_value('iteration', iteration)
  call my_part()
  call set_initial()
  call pcm_start()

  do while (iteration < iterations)
    if (pcm_iterate()) call my_part()
    call exchange_y()
    call exchange_z()
    call relax()
    call pcm_swap('t', 'next')
    call pcm_data('t', t)
    call pcm_data('next', next)
    if (sleep_us > 0) ierror = usleep(int(sleep_us, c_int))
    iteration = iteration + 1
  end do

  total = checksum()
  if (rank == 0) print '(a, i0, a, i0, a, z16.16)', 'jacobi3d: iterations ', iterations, ' ranks ', ranks, &
      ' checksum ', total
  call MPI_Finalize(ierror)

contains

  subroutine read_arguments()
    integer :: numbers(5), i, status
    character(32) :: word
    do i = 1, 5
      call get_command_argument(i, word)
      read(word, *, iostat=status) numbers(i)
      if (status /= 0) then
        write(error_unit, '(a)') 'usage: jacobi3d NX NY NZ ITERATIONS SLEEP_US'
        call MPI_Abort(MPI_COMM_WORLD, 2, ierror)
      end if
    end do
    nx = numbers(1)
    ny = numbers(2)
    nz = numbers(3)
    iterations = numbers(4)
    sleep_us = numbers(5)
  end subroutine

  ! The cells of this rank, and the ranks beside it, on a grid of ranks that counts along y first.
  subroutine my_part()
    call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierror)
    call pcm_data('t', t)
    call pcm_data('next', next)
    call pcm_bounds('t', 2, y1, y2)
    call pcm_bounds('t', 3, z1, z2)
    lower_y = owner(y1 - 1, z1)
    upper_y = owner(y2 + 1, z1)
    lower_z = owner(y1, z1 - 1)
    upper_z = owner(y1, z2 + 1)
  end subroutine

  integer function owner(y, z)
    integer, intent(in) :: y, z
    owner = MPI_PROC_NULL
    if (y >= 1 .and. y <= ny .and. z >= 1 .and. z <= nz) call pcm_owner('t', [1, y, z], owner)
  end function

  ! Hot at the bottom, cooling off along the sides, cold inside.
  subroutine set_initial()
    integer :: y, z
    real(real64) :: side
    do z = z1, z2
      side = 100.0_real64 * real(nz - z, real64) / real(nz - 1, real64)
      do y = y1, y2
        t(:, y, z) = merge(side, 0.0_real64, is_side(y, z))
        t(1, y, z) = side
        t(nx, y, z) = side
      end do
    end do
  end subroutine

  pure logical function is_side(y, z)
    integer, intent(in) :: y, z
    is_side = y == 1 .or. y == ny .or. z == 1 .or. z == nz
  end function

  ! Planes of constant y do not lie together in memory: they go through arrays of their own.
  subroutine exchange_y()
    real(real64) :: sent(nx, z1:z2), received(nx, z1:z2)
    sent = t(:, y1, z1:z2)
    received = t(:, y2 + 1, z1:z2)
    call swap_planes(sent, lower_y, received, upper_y, DOWN)
    t(:, y2 + 1, z1:z2) = received
    sent = t(:, y2, z1:z2)
    received = t(:, y1 - 1, z1:z2)
    call swap_planes(sent, upper_y, received, lower_y, UP)
    t(:, y1 - 1, z1:z2) = received
  end subroutine

  subroutine exchange_z()
    real(real64) :: sent(nx, y1:y2), received(nx, y1:y2)
    sent = t(:, y1:y2, z1)
    received = t(:, y1:y2, z2 + 1)
    call swap_planes(sent, lower_z, received, upper_z, DOWN)
    t(:, y1:y2, z2 + 1) = received
    sent = t(:, y1:y2, z2)
    received = t(:, y1:y2, z1 - 1)
    call swap_planes(sent, upper_z, received, lower_z, UP)
    t(:, y1:y2, z1 - 1) = received
  end subroutine

  ! What is received stays as it was where there is no rank to send it.
  subroutine swap_planes(sent, to, received, from, tag)
    real(real64), contiguous, intent(in) :: sent(:, :)
    real(real64), contiguous, intent(inout) :: received(:, :)
    integer, intent(in) :: to, from, tag
    call MPI_Sendrecv(sent(1, 1), size(sent), MPI_DOUBLE_PRECISION, to, tag, received(1, 1), size(received), &
                      MPI_DOUBLE_PRECISION, from, tag, MPI_COMM_WORLD, MPI_STATUS_IGNORE, ierror)
  end subroutine

  ! The mean of six neighbours; cells of the sides keep their temperature.
  subroutine relax()
    integer :: x, y, z
    do z = z1, z2
      do y = y1, y2
        next(:, y, z) = t(:, y, z)
        if (is_side(y, z)) cycle
        do x = 2, nx - 1
          next(x, y, z) = ((t(x - 1, y, z) + t(x + 1, y, z)) + (t(x, y - 1, z) + t(x, y + 1, z)) &
                           + (t(x, y, z - 1) + t(x, y, z + 1))) / 6.0_real64
        end do
      end do
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
    integer :: x, y, z
    mine = 0
    do z = z1, z2
      do y = y1, y2
        do x = 1, nx
          place = (int(z - 1, int64) * ny + (y - 1)) * nx + (x - 1)
          mine = mine + mix(ieor(transfer(t(x, y, z), 0_int64), mix(place - 7046029254386353131_int64)))
        end do
      end do
    end do
    checksum = 0
    call MPI_Reduce(mine, checksum, 1, MPI_INTEGER8, MPI_SUM, 0, MPI_COMM_WORLD, ierror)
  end function
end program
