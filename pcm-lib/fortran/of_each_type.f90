
  subroutine value_{name}(name, value, status)
    character(*), intent(in) :: name
    {type}, target, intent(inout) :: value(..)
    integer, optional, intent(out) :: status
    call pcm_value_bytes(name, c_loc(value), size(value) * storage_size(value) / 8, status)
  end subroutine
