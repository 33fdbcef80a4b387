// Marbles roll in a circle on a chequered floor. frame_number goes from 1 to final_frame.
#version 3.7;
global_settings { assumed_gamma 1.0 max_trace_level 6 }

camera { location <0, 3.2, -7> look_at <0, 0.6, 0> angle 45 right x * image_width / image_height }
light_source { <-6, 9, -5> rgb 1.1 }
light_source { <5, 6, -6> rgb 0.4 }
background { rgb <0.55, 0.7, 0.9> }
plane { y, 0 pigment { checker rgb 0.9 rgb <0.2, 0.25, 0.3> } finish { reflection 0.15 } }

#declare Marbles = 9;
#for (I, 0, Marbles - 1)
  #declare Angle = 360 * (I + clock) / Marbles;
  sphere {
    <2.2, 0.6, 0>, 0.6
    #if (mod(I, 3) = 0)
      pigment { rgbt <1, 1, 1, 0.9> }
      finish { reflection { 0.1, 0.8 fresnel } specular 0.8 roughness 0.005 conserve_energy }
      interior { ior 1.5 }
    #else
      pigment { marble turbulence 1 color_map { [0 rgb <I / Marbles, 0.2, 1 - I / Marbles>] [1 rgb 1] } rotate 40 * I }
      finish { phong 0.8 reflection 0.2 }
    #end
    rotate 360 * clock * z
    rotate Angle * y
  }
#end
