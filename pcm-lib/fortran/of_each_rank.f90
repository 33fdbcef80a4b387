
  subroutine array_{name}_{rank}(name, array, extents, options, status)
    character(*), intent(in) :: name
    {type}, pointer, intent(out) :: array({colons})
    integer, intent(in) :: extents({rank})
    type(pcm_option), intent(in) :: options(:)
    integer, optional, intent(out) :: status
    nullify(array)
    if (created(name, {element}, extents, options, status)) call data_{name}_{rank}(name, array, status)
  end subroutine

  subroutine data_{name}_{rank}(name, array, status)
    character(*), intent(in) :: name
    {type}, pointer, intent(out) :: array({colons})
    integer, optional, intent(out) :: status
    {type}, pointer :: part({colons})
    type(place) :: at
    nullify(array)
    if (.not. found(name, {rank}, {element}, at, status)) return
    call c_f_pointer(at%address, part, at%extents(1:{rank}))
    array({bounds}) => part
  end subroutine
