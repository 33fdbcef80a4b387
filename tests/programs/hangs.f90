! Programs in Fortran that hang, one mistake per mode, each at a line that a comment names: hangs MODE [FILE]. Built with
! -O2 and without frame pointers; MPI is called by its C interface, so that no binding is needed. Must never know about
! pcm.
module waits
  use, intrinsic :: iso_c_binding
  implicit none

  integer(c_int), parameter :: WORLD = 1140850688, REAL8 = 1275070475, SUM_OF = 1476395011 ! MPICH's handles
  integer, volatile :: flag = 0
  real(c_double), volatile :: sink = 0

  interface
    integer(c_int) function c_init(argc, argv) bind(c, name='MPI_Init')
      import
      type(c_ptr), value :: argc, argv
    end function
    integer(c_int) function c_rank(comm, rank) bind(c, name='MPI_Comm_rank')
      import
      integer(c_int), value :: comm
      integer(c_int) :: rank
    end function
    integer(c_int) function c_barrier(comm) bind(c, name='MPI_Barrier')
      import
      integer(c_int), value :: comm
    end function
    integer(c_int) function c_recv(buffer, count, type, peer, tag, comm, status) bind(c, name='MPI_Recv')
      import
      real(c_double) :: buffer
      integer(c_int), value :: count, type, peer, tag, comm
      integer(c_int) :: status(5)
    end function
    integer(c_int) function c_allreduce(own, all, count, type, operation, comm) bind(c, name='MPI_Allreduce')
      import
      real(c_double) :: own, all
      integer(c_int), value :: count, type, operation, comm
    end function
    integer(c_int) function c_usleep(us) bind(c, name='usleep')
      import
      integer(c_int), value :: us
    end function
  end interface

contains

  subroutine meet()
    integer(c_int) :: code
    code = c_barrier(WORLD) ! at: waits::meet
    sink = sink + code
  end subroutine

  subroutine exchange(peer, tag)
    integer(c_int), intent(in) :: peer, tag
    integer(c_int) :: code, status(5)
    real(c_double) :: value
    code = c_recv(value, 1, REAL8, peer, tag, WORLD, status) ! at: waits::exchange
    sink = sink + code
  end subroutine

  subroutine add_up()
    integer(c_int) :: code
    real(c_double) :: own, all
    own = 1
    code = c_allreduce(own, all, 1, REAL8, SUM_OF, WORLD) ! at: waits::add_up
    sink = sink + all + code
  end subroutine

  subroutine read_input(path)
    character(*), intent(in) :: path
    integer :: unit, value
    open(newunit=unit, file=path, action='readwrite', access='stream', form='formatted')
    read(unit, *) value ! at: waits::read_input
    sink = sink + value
  end subroutine

  subroutine spin()
    do while (flag == 0) ! at: waits::spin
    end do
  end subroutine

  subroutine run_tool()
    integer :: code
    call execute_command_line('sleep 60', exitstat=code) ! at: waits::run_tool
    sink = sink + code
  end subroutine

  ! A procedure within a procedure.
  subroutine relax(steps)
    integer, intent(in) :: steps
    integer :: step, taken
    taken = 0
    do step = 1, steps
      call pause_between()
    end do
    sink = sink + taken
  contains
    subroutine pause_between()
      integer(c_int) :: code
      taken = taken + 1
      code = c_usleep(1000000000) ! at: pause_between
      sink = sink + code
    end subroutine
  end subroutine

end module

program hangs
  use waits
  implicit none
  character(len=4096) :: mode, path
  integer(c_int) :: code, rank
  code = c_init(c_null_ptr, c_null_ptr)
  code = c_rank(WORLD, rank)
  call get_command_argument(1, mode)
  call get_command_argument(2, path)
  code = c_barrier(WORLD)
  if (mode == 'ring') then
    call exchange(mod(rank + 1, 4), 7)
  else if (rank == 1) then
    select case (mode)
    case ('input')
      call read_input(trim(path))
    case ('loop')
      call spin()
    case ('sum')
      call add_up()
    case ('unsent')
      call exchange(0, 3)
    case ('tool')
      call run_tool()
    case ('contained')
      call relax(1000)
    end select
  end if
  call meet()
end program
